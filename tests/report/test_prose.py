"""Texts on the page: code between backticks is code, and nothing else of a text is markup."""

from mimogc.report.write import _prose


def test_backticks_are_code_and_the_rest_is_escaped() -> None:
    assert _prose("`gain` is <b> & ``--lr``") == "<code>gain</code> is &lt;b&gt; &amp; <code>--lr</code>"
