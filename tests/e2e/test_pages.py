"""How blocks of pages are run and compared; `make docs` runs those of all pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from page_blocks import differences, renewed

PAGE = """# A page

```yaml title="box.yaml"
host: cpu
devices: {cpu: rockchip-rk3588-cpu}
```

```console
$ hetsim inspect box.yaml box.yaml
box.yaml: valid ...
$ hetsim inspect no.yaml
```

```python
said = 1 + 1
```

```python
print(said)
```

```output
3
```

```text
not run
```
"""


def test_what_differs_is_told_and_renewed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    (console, printed), (shown, two) = differences(page)
    assert printed.startswith("$ hetsim inspect box.yaml box.yaml\nbox.yaml: valid platform 'box'")
    assert "no.yaml" in printed
    assert printed.endswith("(exit code 2)\n")
    assert "exit code" not in console
    assert (shown, two) == ("3\n", "2\n")
    page.write_text(renewed(page))
    assert differences(page) == []
    first, *others = printed.splitlines(keepends=True)[1:]
    assert first.startswith("box.yaml: valid platform")
    kept = "".join(console.splitlines(keepends=True)[:2])  # what was left open stays so
    text = PAGE.replace(console, kept + "".join(others))
    assert page.read_text() == text.replace("```output\n3", "```output\n2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```python\nprint(1)\n```\n", "is shown nowhere"),
        ("```bash\nls\n```\n", "bash"),
        ("```console\n$ ls\n```\n", "not a command of hetsim"),
    ],
)
def test_what_would_not_be_compared_is_refused(text: str, says: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=says):
        differences(page)
