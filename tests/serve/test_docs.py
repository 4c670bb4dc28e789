"""The documentation of ``slalom serve``: its examples run, and every option is described."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servers import command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text()


def blocks(language, holding):
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    return [block for block in found if holding in block]


def test_the_python_example_runs(server):
    server.ready()
    (code,) = blocks("python", "urlopen")
    assert "http://localhost:8765" in code
    code = code.replace("http://localhost:8765", f"http://localhost:{server.port}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "wonderful" in done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("example", blocks("sh", "curl"))
def test_the_curl_examples_run(server, example):
    server.ready()
    shell = example.replace("http://localhost:8765", f"http://localhost:{server.port}")
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert '"error"' not in done.stdout
    assert "probabilit" in done.stdout


def test_every_option_is_documented():
    section = (ROOT / "docs" / "cli.md").read_text().partition("## `slalom serve`")[2]
    section = section.partition("\n## ")[0]
    done = subprocess.run(command("--help"), capture_output=True, text=True, check=True)
    options = set(re.findall(r"--[a-z][a-z-]+", done.stdout)) - {"--help"}
    assert set(re.findall(r"^\| `(--[a-z-]+)", section, re.M)) == options


def test_every_address_is_documented(server):
    paths = server.get("/api/openapi.json").json["paths"]
    for path in paths:
        shown = path.replace("{job}", "{id}").replace("{ending}", "svg")
        begin = shown.removesuffix("/view").removesuffix("/{row}").removesuffix("/api/example")
        assert begin in PAGE, path
