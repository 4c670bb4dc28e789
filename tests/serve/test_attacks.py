"""What an attacker would try, and what a careless visitor might."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading

import pytest
import uvicorn
from servers import serving, until

from slalom_xai.serve.guard import Access, Guard
from slalom_xai.serve.serving import Address, make_timed_protocol, open_port
from slalom_xai.serve.work.spec import Limits

TOKEN = "a-token-for-the-tests_1234"
HTML = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that asks for a token; its model is not there, and nobody waits for it."""
    folder = tmp_path_factory.mktemp("guarded")
    options = ["--token", TOKEN, "--model", f"none={folder}/nothing", "--base-path", "/slalom"]
    with serving(folder, *options, "--allow-host", "explain.example.org") as running:
        yield running


def raw(port: int, sent: bytes, *, until_closed: bool = False) -> bytes:
    """What a server answers to bytes that no client library would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(sent)
        answer = b""
        while part := connection.recv(65536):
            answer += part
            if not until_closed and b"\r\n\r\n" in answer:
                break
    return answer


# Tokens.


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Cookie": f"slalom_token={TOKEN}"},
        {"Cookie": 'slalom_x="\\'},
        {"Authorization": "Bearer t\xf6ken"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/models", "/metrics", "/api/jobs", "/static/app.js"])
def test_without_the_token_nothing_is_told(guarded, headers, path):
    reply = guarded.get(path, **headers)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "asks for a token" in reply.error
    assert TOKEN not in reply.body.decode()


def test_the_token_opens_as_a_bearer_and_as_the_cookie(guarded):
    assert guarded.get("/api/models", Authorization=f"Bearer {TOKEN}").status == 200
    moved = guarded.get(f"/?token={TOKEN}&text=a%26b&x=%0d%0aSet-Cookie:%20y=1")
    assert moved.status == 303
    assert moved.headers["location"] == "./?text=a%26b&x=%0D%0ASet-Cookie%3A+y%3D1"
    cookie = moved.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/slalom" in cookie
    assert "Secure" not in cookie
    assert guarded.get("/api/models", Cookie=cookie.partition(";")[0]).status == 200
    proxied = guarded.get(f"/?token={TOKEN}", X_Forwarded_Proto="https")
    assert "; Secure" in proxied.headers["set-cookie"]


OTHERS = [
    "a b=1",
    "[x]=1",
    "a=[1, 2]",
    "name=J\xc3\xb6rg",
    'json={"a": "b, c"}',
    "=nameless",
    "valueless",
    'open="',
    "a=b=c",
    "$Version=1",
    "x=\x7f",
    "",
]


@pytest.mark.parametrize("other", OTHERS)
def test_cookies_of_other_programs_keep_nobody_out(guarded, other):
    """All programs of a machine share their cookies, whatever their ports."""
    own = guarded.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    for cookies in (f"{other}; {own}", f"{own}; {other}", f"{other}; {own}; {other}"):
        assert guarded.get("/api/models", Cookie=cookies).status == 200, cookies
    assert guarded.get("/api/models", Cookie=other).status == 401


def test_cookies_may_come_in_several_headers_and_under_an_old_value(guarded):
    own = guarded.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    name = own.partition("=")[0]
    assert guarded.get("/api/models", Cookie=f"{name}=old; {own}").status == 200
    sent = f"GET /api/models HTTP/1.1\r\nHost: localhost\r\nCookie: {own}\r\nCookie: a=b\r\n\r\n"
    assert raw(guarded.port, sent.encode()).split(b" ")[1] == b"200"


def test_the_address_without_its_last_slash_keeps_the_token(guarded):
    moved = guarded.get(f"/slalom?token={TOKEN}&tab=history&x=a%26b")
    assert moved.status == 303
    assert moved.headers["location"] == f"/slalom/?token={TOKEN}&tab=history&x=a%26b"
    assert "set-cookie" in guarded.get(moved.headers["location"]).headers
    assert guarded.get("/slalom").headers["location"] == "/slalom/"


def test_the_token_in_an_address_is_for_the_page_only(guarded):
    assert guarded.get(f"/api/models?token={TOKEN}").status == 401
    assert guarded.post(f"/?token={TOKEN}", {}).status == 401
    assert guarded.get("/?token=wrong").status == 401


def test_the_sign_of_life_needs_no_token_and_tells_nothing_else(guarded):
    for path in ("/healthz", "/slalom/healthz"):
        assert guarded.get(path).json == {"status": "ok"}


def test_off_this_machine_a_token_is_made_and_printed(tmp_path):
    with serving(tmp_path, "--host", "0.0.0.0", "--model", f"none={tmp_path}/nothing") as server:
        token = server.address.partition("?token=")[2]
        assert len(token) >= 32
        assert server.get("/api/models").status == 401
        named = server.get("/api/models", Host="192.0.2.7:80", Authorization=f"Bearer {token}")
        assert named.status == 200
        assert server.get("/api/models", Host="evil.example").status == 421
        assert token not in server.log


# Who the request says that it is for, and where it comes from.


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "192.0.2.7", "", "[::2]"),
        *("[::1]evil.example", "[::1].evil.example", "[::1]:80:80", "[::1", "::1", "[127.0.0.1]"),
        *("localhost:80@evil.example", "evil.example@localhost", "localhost:80/evil.example"),
        *("localhost:", "localhost:x", "localhost:99999", "localhost..", "localhost,evil.example"),
        *("localhost evil.example", "http://localhost", "loc\xe4lhost", "localhost%00"),
    ],
)
def test_another_name_for_this_machine_is_refused(server, host):
    reply = server.get("/api/models", Host=host)
    assert reply.status == 421
    assert "is not called" in reply.error


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "localhost.:80", "127.0.0.1:9", "[::1]:8765", "[0::1]"]
)
def test_the_names_of_this_machine_are_known(server, host):
    assert server.get("/healthz", Host=host).status == 200


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization"])
def test_two_hosts_or_origins_in_one_request_are_refused(server, name):
    sent = b"GET /api/models HTTP/1.1\r\n"
    given = [name] * 2 if name == "Host" else ["Host", name, name]
    sent += b"".join(b"%s: localhost\r\n" % each.encode() for each in given) + b"\r\n"
    assert raw(server.port, sent).split(b" ")[1] == b"400"


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost.evil.example",
        "http://localhost:1",
        "http://localhost",
        "null",
        "",
        "http://[::1",
        "file://",
        "evil://localhost:{port}",
        "httpx://localhost:{port}",
        "//localhost:{port}",
        "localhost:{port}",
        "http://localhost:{port}/",
        "http://localhost:{port}@evil.example",
        "http://evil.example@localhost:{port}",
        "http://evil.example http://localhost:{port}",
        "http://http://localhost:{port}",
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/api/jobs"), ("DELETE", "/api/jobs/1")])
def test_a_page_of_another_site_can_change_nothing(server, origin, method, path):
    host = f"localhost:{server.port}"
    body, origin = {"model": "x", "text": "x"}, origin.format(port=server.port)
    reply = server.request(method, path, body, Origin=origin, Host=host)
    assert reply.status == 403
    assert "another site" in reply.error


def test_the_page_itself_can(server):
    host = f"localhost:{server.port}"
    body = {"model": "nobody", "text": "x"}
    assert server.post("/api/jobs", body, Host=host, Origin=f"http://{host}").status == 404
    sites = {"Sec_Fetch_Site": "cross-site"}
    assert server.post("/api/jobs", body, Host=host, **sites).status == 403


def test_behind_a_proxy_the_page_has_the_proxys_name(guarded):
    bearer = f"Bearer {TOKEN}"
    body = {"model": "nobody", "text": "x"}
    headers = {"Origin": "https://explain.example.org", "Authorization": bearer}
    assert guarded.post("/slalom/api/jobs", body, **headers).status == 404
    assert guarded.get("/healthz", Host="explain.example.org").status == 200
    headers["Origin"] = "https://other.example.org"
    assert guarded.post("/slalom/api/jobs", body, **headers).status == 403


def test_a_form_of_another_site_cannot_be_taken_for_json(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        reply = server.post("/api/jobs", b'{"model": "embedded", "text": "x"}', Content_Type=kind)
        assert reply.status == 415, kind


def test_no_answer_may_be_framed_sniffed_kept_or_sent_on(server):
    for path in ("/healthz", "/api/models", "/nothing", "/api/openapi.json"):
        headers = server.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


# Paths out of the folder.

OUT = [
    "../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "/etc/passwd",
]
OUT += ["....//etc/passwd", "..%5c..%5cetc%5cpasswd", "%00", "index.html%00.js", "app.js/../../x"]


@pytest.mark.parametrize("path", OUT)
@pytest.mark.parametrize(
    "place",
    [
        "/static/{}",
        "/{}",
        "/api/explanations/{}",
        "/api/explanations/{}/view",
        "/api/explanations/{}/snippet",
        "/api/explanations/{}/figure.svg",
        "/api/explanations/" + "0" * 32 + "/figure.{}",
        "/api/explanations/" + "0" * 32 + "/figure.svg?kind={}",
        "/api/jobs/{}",
        "/api/data/rows/{}",
        "/api/data/rows?model={}",
        "/api/data/rows?after={}",
        "/api/report.html?keys={}",
    ],
)
def test_no_path_leads_out(server, place, path):
    reply = server.get(place.format(path))
    assert reply.status in (400, 404, 422), reply.body
    assert b"root:" not in reply.body
    assert b"Traceback" not in reply.body


def test_names_in_a_body_are_no_paths(server):
    server.ready()
    for name in ("../../../etc/passwd", "/etc/passwd", "embedded/../embedded"):
        assert server.post("/api/jobs", {"model": name, "text": "x"}).status == 404
        assert server.post("/api/predict", {"model": name, "text": "x"}).status == 404
        body = {"model": "embedded", "text": "x", "method": name}
        assert server.post("/api/jobs", body).status == 400


# Too much of everything.


def test_a_body_that_says_it_is_too_large_is_not_read(server):
    sent = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = raw(server.port, sent + b"Content-Length: 99999999999\r\n\r\n")
    assert b" 413 " in answer.partition(b"\r\n")[0]


def test_a_body_that_grows_too_large_is_cut_off(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    chunks = (b'{"text": "' + b"a" * 65536 for _ in range(20))
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", "/api/jobs", chunks, headers, encode_chunked=True)
        status = connection.getresponse().status
    except OSError:  # the server has hung up
        status = 413
    connection.close()
    assert status == 413
    assert server.get("/healthz").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model": "embedded", "text": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"model": "embedded", "text": "x", "counts": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"model": "embedded", "text": "x", "budget": ' + b"9" * 10_000 + b"}",
        b'{"model": "embedded", "text": "x", "budget": 1e999}',
        b'{"model": "embedded", "text": "x", "seed": NaN}',
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"",
    ],
)
@pytest.mark.parametrize("path", ["/api/jobs", "/api/predict"])
def test_a_body_of_another_shape_is_refused_in_one_line(server, path, body):
    reply = server.post(path, body, Content_Type="application/json")
    assert reply.status in (400, 422), reply.body
    assert len(reply.error) < 400
    assert "\n" not in reply.error


def test_a_head_that_is_too_large_is_refused(server):
    sent = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"
    assert b" 400 " in raw(server.port, sent).partition(b"\r\n")[0]
    assert server.get("/healthz").status == 200


@pytest.fixture(scope="module")
def hasty():
    """A port behind the guard that waits for a third of a second only."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})

    limits = Limits(head_seconds=0.3, body_seconds=0.3)
    guard = Guard(app, Access(frozenset({"localhost"})), limits, log_texts=False)
    config = uvicorn.Config(guard, http=make_timed_protocol(0.3), lifespan="off", log_config=None)
    running = uvicorn.Server(config)
    port = open_port(Address(port=0))
    thread = threading.Thread(target=running.run, args=([port],))
    thread.start()
    yield port.getsockname()[1]
    running.should_exit = True
    thread.join()
    port.close()


BEGUN = b"GET / HTTP/1.1\r\nHost: local"
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY += b"Content-Length: 100\r\n\r\n{"


@pytest.mark.parametrize(
    ("sent", "said"),
    [(b"", b""), (BEGUN, b""), (WHOLE + BEGUN, b" 200 "), (BODY, b" 408 ")],
)
def test_a_slow_client_is_not_waited_for_and_keeps_nobody_out(hasty, sent, said):
    with socket.create_connection(("127.0.0.1", hasty), timeout=120) as slow:
        slow.sendall(sent)
        assert b"fine" in raw(hasty, WHOLE.replace(b"1.1", b"1.0"), until_closed=True)
        answer = b""
        while part := slow.recv(65536):  # ends when the server has hung up
            answer += part
    assert answer.count(b"HTTP/1.1") == bool(said)
    assert said in answer


def test_a_client_that_drips_is_not_waited_for_either(hasty):
    with socket.create_connection(("127.0.0.1", hasty), timeout=120) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")

        def hung_up():
            try:
                slow.sendall(b"X-More: 1\r\n")
            except OSError:
                return True
            return False

        until(hung_up, "the server to hang up")


# Lines in lines, markup in names.


def test_a_header_cannot_be_smuggled_in(server):
    for path in ("/x%0d%0aSet-Cookie:%20a=b", "/api/jobs/1%0d%0aX:%20y", "/?x=%0d%0aX-Evil:%201"):
        reply = server.get(path)
        assert "set-cookie" not in reply.headers
        assert "x-evil" not in reply.headers
        assert "x" not in reply.headers
    sent = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\rSet-Cookie: b\r\n\r\n"
    assert b"Set-Cookie" not in raw(server.port, sent)


def test_markup_is_told_as_text_and_as_nothing_else(server):
    """Whatever holds markup is JSON, which no browser reads as a page."""
    server.ready("tiny")
    job = server.explained(f"{HTML} film", model="tiny", budget=100)
    for path in (
        "/api/models",
        "/api/data",
        "/api/data/rows",
        "/api/jobs",
        f"/api/jobs/{job['id']}/view",
        f"/api/explanations/{job['key']}",
        f"/api/explanations/{job['key']}/snippet",
        f"/api/data/rows?model={HTML}",
    ):
        reply = server.get(path)
        assert reply.headers["content-type"] == "application/json", path
        assert HTML in json.dumps(reply.json, ensure_ascii=False) or "<" in reply.body.decode()
    report = server.get(f"/api/report.html?keys={job['key']}").body.decode()
    assert HTML not in report
    assert "<i>bad</i>" not in report
    picture = server.get(f"/api/explanations/{job['key']}/figure.svg?kind=text").body.decode()
    assert "<script" not in picture


# What is written down.


def test_the_log_has_a_line_for_each_job_and_no_text(server):
    server.ready()
    job = server.explained("A very unusual zebra film.", budget=40)
    failed = server.ended(server.ask("zebra " * 600, budget=40)["id"])
    server.post("/api/predict", {"model": "embedded", "text": "zebra again"})
    server.get("/api/data/rows?search=zebra")
    lines = server.log.splitlines()
    assert any(
        re.search(rf"job {job['id']} asked: embedded, slalom, 26 char", line) for line in lines
    )
    assert any(
        re.search(rf"job {job['id']} done: embedded, slalom, \d+ units", line) for line in lines
    )
    assert any(f"job {failed['id']} failed: " in line for line in lines)
    assert "zebra" not in server.log


def test_texts_are_logged_where_this_is_asked_for(tmp_path):
    with serving(tmp_path, "--log-texts", "--model", f"none={tmp_path}/nothing") as server:
        server.ask("A zebra\nfilm.", model="none")
        until(lambda: '"A zebra\\nfilm."' in server.log, "the text in the log", server)


def test_the_token_is_in_no_log_line(guarded):
    guarded.get(f"/?token={TOKEN}")
    guarded.get(f"/api/models?token={TOKEN}")
    guarded.get("/api/models", Authorization=f"Bearer {TOKEN}")
    raw(guarded.port, f"GET /?token={TOKEN} HTTP/9.9\r\n\r\n".encode())
    assert TOKEN not in guarded.log
