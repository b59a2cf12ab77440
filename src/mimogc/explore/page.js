// What the controls do: ask for the cards of what is picked, one question at a time, and put in those that changed.
"use strict";
const form = document.querySelector("form");
const main = document.querySelector("main");
const at = (id) => document.getElementById(id);
let asking = false;
let changed = false;
let unseen = ""; // the card that the tour points to, until it was scrolled to

function say(id, text) {
  at(id).textContent = text;
  at(id).hidden = !text;
}

function label() {
  for (const slider of form.querySelectorAll("input[type=range]")) {
    slider.nextElementSibling.value = slider.name === "component" ? slider.value + " %" : slider.value;
  }
  const method = form.elements.method.selectedOptions[0];
  const fixed = method.dataset.heads !== "free";
  form.elements.nodes.disabled = form.elements.graph.selectedOptions[0].dataset.nodes !== "free";
  form.elements.heads.disabled = fixed;
  at("fixed").textContent = fixed ? `K is fixed by the definition of ${method.text}.` : "";
}

function picked() {
  const query = new URLSearchParams();
  for (const { type, name, value, checked } of form.elements) {
    if (name) query.set(name, type === "checkbox" ? Number(checked) : value);
  }
  return query;
}

function point(card) {
  main.dataset.meant = card;
  unseen = card;
}

function lookThere() {
  // Where the controls are above the cards, whoever reads the story would lose it.
  if (unseen && !matchMedia("(max-width: 800px)").matches) at(unseen).scrollIntoView({ block: "nearest" });
  unseen = "";
}

async function show() {
  label();
  changed = true;
  if (asking) return;
  asking = true;
  main.setAttribute("aria-busy", "true");
  const late = setTimeout(() => { at("state").textContent = "Computing; the first time torch is loaded before that, which takes some seconds."; }, 600);
  try {
    while (changed) {
      changed = false;
      const answer = await fetch("cards?" + picked());
      if (!answer.ok) throw new Error(await answer.text());
      const { cards, seconds } = await answer.json();
      cards.forEach((html, place) => {
        const card = document.createRange().createContextualFragment(html).firstElementChild;
        if (card.outerHTML !== main.children[place].outerHTML) main.children[place].replaceWith(card);
      });
      lookThere();
      say("problem", "");
      clearTimeout(late);
      at("state").innerHTML = `The four views took <span id="seconds">${seconds.toFixed(2)}</span> s.`;
    }
  } catch (error) {
    clearTimeout(late);
    at("state").textContent = "";
    say("problem", error instanceof TypeError ? "mimogc explore has ended; start it again." : error.message);
  }
  main.removeAttribute("aria-busy");
  asking = false;
}

async function send(file) {
  if (file.size > Number(at("own").dataset.largest)) {
    say("problem", `${file.name}: expected at most ${at("own").dataset.largest} bytes, got ${file.size}`);
    return;
  }
  const answer = await fetch("own?" + new URLSearchParams({ name: file.name }), { method: "POST", body: file });
  const text = await answer.text();
  if (!answer.ok) {
    say("problem", text);
    return;
  }
  const graphs = form.elements.graph;
  const option = graphs.querySelector("#own-graph") || graphs.appendChild(document.createElement("option"));
  Object.assign(option, { id: "own-graph", value: text, text: `your own: ${file.name}` });
  graphs.value = text;
  at("tour").value = "";
  say("story", "");
  point("");
  show();
}

at("tour").addEventListener("change", (event) => {
  const step = event.target.selectedOptions[0].dataset;
  for (const [name, value] of Object.entries(JSON.parse(step.choice))) {
    const control = form.elements[name];
    if (control.type === "checkbox") control.checked = value;
    else control.value = value;
  }
  say("story", step.story);
  point(step.card);
});
at("own").addEventListener("change", (event) => {
  event.stopPropagation();
  if (event.target.files.length) send(event.target.files[0]);
  event.target.value = "";
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", label);
form.addEventListener("change", show);
label();
