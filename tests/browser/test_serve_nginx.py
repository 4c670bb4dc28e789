"""The page of ``slalom serve`` behind a real nginx, under a path of its own."""

import shutil
import socket
import subprocess
from urllib.parse import urlsplit

import pytest
from page_served import REVIEW
from processes import started
from tabs import Tabs

PROXY = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location /slalom/ {{
            proxy_pass {server};
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


@pytest.fixture
def proxy(server, tmp_path):
    """The address of the page behind nginx."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("no nginx found: install one (apt-get install nginx)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "nginx.conf"
    config.write_text(PROXY.format(folder=tmp_path, port=port, server=server.address))
    command = [nginx, "-p", str(tmp_path), "-c", str(config)]
    with started(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                continue
        assert process.poll() is None, (tmp_path / "error.log").read_text()
        yield f"http://127.0.0.1:{port}/slalom/"


def test_the_main_path_works_under_a_sub_path(browser, proxy):
    tabs = Tabs(browser, (proxy,))
    page = tabs.open(proxy)
    page.get_by_label("Text", exact=True).fill(REVIEW + " Behind a proxy.")
    page.get_by_label("Model calls").fill("2000")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.locator("progress[value]").wait_for()  # events come through at once
    page.locator("summary", has_text="Export").wait_for()
    page.locator(".word").nth(3).click()
    page.get_by_role("button", name="Ask the model").click()
    page.locator("data[data-kind=asked]").wait_for()
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Page (HTML)").click()
    assert "Behind a proxy" in download.value.path().read_text(encoding="utf-8")
    page.reload()
    page.locator("summary", has_text="Export").wait_for()
    page.get_by_role("link", name="Data set").click()
    page.locator(".dataset tbody tr").first.wait_for()
    assert urlsplit(page.url).path == "/slalom/"
    page.get_by_role("link", name="Slalom").click()
    page.locator(".empty").wait_for()
    assert page.url == proxy
    tabs.close()
    assert tabs.heard == []
