"""Behind nginx under a sub-path, as ``deploy/`` says; and what the container is made of."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from processes import started
from servers import serving, until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
TOKEN = "a-token-behind-nginx"

needs_nginx = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed: apt-get install nginx"
)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def proxied(folder, port):
    """nginx with the site of ``deploy/nginx.conf`` before a server; the port of nginx."""
    site = (DEPLOY / "nginx.conf").read_text()
    assert "listen 80;" in site
    assert "http://slalom:8765/" in site
    own = free_port()
    site = site.replace("listen 80;", f"listen 127.0.0.1:{own};")
    site = site.replace("http://slalom:8765/", f"http://127.0.0.1:{port}/")
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{site}}}\n"
    )
    command = [NGINX, "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"]
    with started(list(map(str, command)), stderr=-1):
        until(lambda: answers(own), "nginx to listen")
        yield own


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.long
@needs_nginx
def test_behind_nginx_under_a_sub_path_the_main_way_works(tmp_path):
    options = ["--base-path", "/slalom", "--allow-host", "explain.example.org", "--token", TOKEN]
    with serving(tmp_path / "serve", *options) as direct, proxied(tmp_path, direct.port) as port:
        visitor = replace(direct, port=port, headers={"Host": "explain.example.org"})
        assert visitor.get("/slalom").headers["location"] == "/slalom/"
        kept = visitor.get(f"/slalom?token={TOKEN}&tab=data").headers["location"]
        assert kept == f"/slalom/?token={TOKEN}&tab=data"
        assert visitor.get("/slalom/healthz").json == {"status": "ok"}
        assert visitor.get("/slalom/api/models").status == 401
        assert visitor.get("/slalom/metrics").status == 404
        moved = visitor.get(f"/slalom/?token={TOKEN}&method=slalom")
        assert moved.status == 303
        assert moved.headers["location"] == "./?method=slalom"
        assert "Path=/slalom" in moved.headers["set-cookie"]
        visitor.headers["Cookie"] = moved.headers["set-cookie"].partition(";")[0]
        visitor.headers["Origin"] = "https://explain.example.org"
        until(
            lambda: visitor.get("/slalom/api/models").json["models"][0]["state"] == "ready",
            "the model",
        )
        text = " ".join(f"A fine film, here in row {number}." for number in range(12))
        asked = visitor.post("/slalom/api/jobs", {"model": "embedded", "text": text})
        assert asked.status == 202
        events = followed(port, f"/slalom/api/jobs/{asked.json['id']}/events", visitor.headers)
        assert events[-1]["state"] == "done"
        assert len(events) > 2  # each came when it was there, not all at the end
        key = events[-1]["key"]
        assert visitor.get(f"/slalom/api/explanations/{key}").json["text"] == text
        visitor.headers["Origin"] = "https://evil.example"
        refused = visitor.post("/slalom/api/jobs", {"model": "embedded", "text": "x"})
        assert refused.status == 403
        too_large = visitor.post("/slalom/api/jobs", b"x" * 2_000_000)
        assert too_large.status == 413


def followed(port, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path, headers=headers)
        lines = list(connection.getresponse())
    finally:
        connection.close()
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]


def test_a_proxy_that_leaves_the_sub_path_works_as_well(tmp_path):
    options = ["--base-path", "/tools/slalom/", "--model", f"none={tmp_path}/nothing"]
    with serving(tmp_path, *options) as server:
        assert server.address.endswith("/tools/slalom/")
        assert server.get("/tools/slalom").headers["location"] == "/tools/slalom/"
        assert server.get("/tools/slalom/healthz").status == 200
        assert server.get("/tools/slalom/api/models").status == 200
        assert server.get("/api/models").status == 200
        assert server.get("/tools/other/api/models").status == 404


def test_the_container_has_what_is_pinned_and_no_root():
    steps = (DEPLOY / "Dockerfile").read_text()
    (torch,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert f"torch=={torch} --index-url https://download.pytorch.org/whl/cpu" in steps
    assert steps.index("USER slalom") < steps.index("ENTRYPOINT")
    for line in re.findall(r"^COPY (.+) \S+$", steps, re.M):
        assert all((ROOT / name).exists() for name in line.split())
    options = set(re.findall(r'"(--[a-z-]+)"', steps))
    options |= set(re.findall(r"- (--[a-z-]+)=", (DEPLOY / "compose.yaml").read_text()))
    page = (ROOT / "docs" / "cli.md").read_text()
    assert options
    assert [option for option in options if f"`{option}" not in page] == []
