"""What the server answers, and what it refuses, without a browser."""

import asyncio
import base64
import http.client
import json
import re
import signal
import socket
import time

import numpy as np
import pytest

from questions import GRID, PARAMETERS, body, cloud, question
from served import MOST_SECONDS, Served
from slabsvm import OneClassSlabSVM
from slabsvm.explore.answer import Answerer
from slabsvm.explore.question import MOST_BYTES, MOST_POINTS, QuestionError, asked
from slabsvm.explore.scripts import FOLDER
from slabsvm.explore.server import HEADERS, PortTakenError, application, bound

pytestmark = pytest.mark.numeric

# The command's server, which waits a second for a request.
HURRIED = """
from slabsvm.explore.server import address, bound, serve
listening = bound(0)
print(address(listening))
serve(listening, None, request_seconds=1.0)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    table = tmp_path_factory.mktemp("tables") / "good.csv"
    table.write_text("name,width,height,weight\na,1,2,3\nb,1.5,,4\nc,2,2.5,5\n", encoding="utf-8")
    running = Served(str(table))
    yield running
    # What a scheduler sends ends it as it ends the other subcommands.
    assert running.end() == (128 + signal.SIGTERM, "", "")


def test_the_answer_is_what_the_library_says(served):
    status, answer = served.answered(body())
    assert status == 200
    model = OneClassSlabSVM(**PARAMETERS, tol=1e-6).fit(cloud())
    nodes = np.stack(np.meshgrid(np.linspace(*GRID["x"]), np.linspace(*GRID["y"])), axis=-1).reshape(-1, 2)
    positions = np.frombuffer(base64.b64decode(answer["positions"]), "<f8")
    # The first question starts from nothing, as the model here does.
    np.testing.assert_array_equal(positions, model.project(nodes))
    within = (answer["rho_lower"] <= positions) & (positions <= answer["rho_upper"])
    np.testing.assert_array_equal(within, model.predict(nodes) == 1)
    assert 0 < within.sum() < len(nodes)
    assert answer["strangers"]["decisions"] == model.decision_function([[3.0, -2.0]]).tolist()
    assert answer["expected_recall"] == model.expected_recall_
    assert answer["gap"] == model.duality_gap_
    assert answer["status"] == "converged"
    assert np.count_nonzero(answer["points"]["coefficients"]) == len(model.support_)


def test_an_answer_after_another_is_the_same_to_the_certificate():
    answerer = Answerer()
    answerer.answer(asked(body(points=cloud(seed=1), nu_lower=0.3)))
    later = answerer.answer(asked(body()))
    first = Answerer().answer(asked(body()))
    # The objective is 1/2 |w|^2, and k(x, x) is 1: w, and so each position, is off by sqrt(2 gap) of each at most.
    allowed = np.sqrt(2 * later["gap"]) + np.sqrt(2 * first["gap"])
    off = np.subtract(later["points"]["positions"], first["points"]["positions"])
    assert np.abs(off).max() <= allowed + 1e-12


def test_without_an_upper_plane_there_is_none(served):
    status, answer = served.answered(body(epsilon=0))
    assert status == 200
    assert answer["rho_upper"] is None


def test_warnings_come_with_the_answer(served):
    _, answer = served.answered(body(gamma=2.0, offsets="training"))
    assert any("support vectors" in text and "leave-one-out" in text for text in answer["warnings"])
    assert answer["points"]["left_out"] is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"points": []}, "learned from 2 points or more, and there are 0"),
        ({"points": [[0, 0]] * (MOST_POINTS + 1)}, "at most 500 are taken"),
        ({"points": [[0, 0], [1]]}, r"points\[1\] must be a pair of finite numbers"),
        ({"points": [[0, 0], [1, True]]}, r"points\[1\]"),
        ({"points": [[0, 0], [1, 10**400]]}, r"points\[1\]"),
        ({"points": {"x": 1}}, "points must be a list of pairs"),
        ({"strangers": [[0, 0]] * 21}, "There are 21 strangers"),
        ({"kernel": "poly"}, "kernel must be one of rbf, linear"),
        ({"offsets": []}, "offsets must be one of"),
        ({"gamma": 0}, "gamma must be a finite number above 0, or one of neighbours, scale"),
        ({"gamma": "auto"}, "gamma must be"),
        ({"gamma": []}, "gamma must be"),
        ({"epsilon": None}, "epsilon must be a finite number"),
        ({"grid": {"x": [0, 1, 5], "y": [1, 0, 5]}}, r"grid\.y must be \[from, to, count\]"),
        ({"grid": {"x": [0, 1, 5000], "y": [0, 1, 5]}}, r"grid\.x must be .* from 2 to 256"),
        ({"grid": {"x": [0, 1, 5]}}, "grid must be an object with these keys and no others: x, y"),
    ],
)
def test_what_is_no_question_is_refused_in_words(changes, said):
    with pytest.raises(QuestionError, match=said):
        asked(body(**changes))


def test_whole_numbers_may_be_longer_than_those_of_numpy():
    assert asked(body(grid={"x": [0, 10**90, 3], "y": [-(2**80), 0, 2]})).across.tolist() == [0, 5e89, 1e90]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "keys and no others: points, strangers, parameters, grid"),
        (body().replace(b"0.01", b"NaN"), "holds NaN. All numbers must be finite"),
        (body().replace(b"0.01", b"1e999"), "nu_upper must be a finite number"),
        (body().replace(b"0.01", b"9" * 5000), "not JSON"),
    ],
)
def test_what_is_no_json_is_refused_in_words(content, said):
    with pytest.raises(QuestionError, match=said):
        asked(content)


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"points": [[0, 0]]}, 400, "Add some"),
        ({"epsilon": 1}, 422, "epsilon must not be 1"),
        ({"nu_lower": 0.9, "nu_upper": 0.2}, 422, "must be less than 1"),
        ({"nu_lower": 7}, 422, "'nu_lower' parameter"),
        ({"kernel": "chi2"}, 422, "Negative values in data"),
    ],
)
def test_errors_come_as_json_and_leave_the_server_as_it_was(served, changes, status, said):
    found, answer = served.answered(body(**changes))
    assert found == status
    assert said in answer["error"]
    assert served.answered(body())[0] == 200


def test_a_body_is_read_no_further_than_a_question_goes(served):
    status, answer = served.answered(b" " * (MOST_BYTES + 1))
    assert status == 413
    assert "larger than 262,144 bytes" in answer["error"]
    # One that does not state its size, and never ends: the answer comes with the first byte that is one too many.
    endless = http.client.HTTPConnection("127.0.0.1", served.port, timeout=MOST_SECONDS)
    endless.putrequest("POST", "/answer")
    endless.putheader("Content-Type", "application/json")
    endless.putheader("Transfer-Encoding", "chunked")
    endless.endheaders()
    for size in (MOST_BYTES, 1):
        endless.send(b"%x\r\n%s\r\n" % (size, b" " * size))
    assert endless.getresponse().status == 413
    endless.close()


def test_the_largest_question_is_within_the_limit():
    points = np.random.default_rng(0).normal(scale=1e-7, size=(MOST_POINTS, 2)).tolist()
    assert len(json.dumps(question(points=points))) < MOST_BYTES // 4


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1", "127.0.0.1:1", "localhost.example.org:{port}", "", "[::1]:{port}"]
)
def test_another_host_is_refused(served, host):
    for method, path, content in (("GET", "/", None), ("GET", "/table", None), ("POST", "/answer", body())):
        status, headers, text = served.ask(method, path, content, Host=host.format(port=served.port))
        assert status == 421
        assert f"127.0.0.1:{served.port}" in json.loads(text)["error"]
        assert headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_localhost_is_the_same_host(served):
    host = f"localhost:{served.port}"
    assert served.answered(body(), Host=host, Origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize("origin", ["http://example.org", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(served, origin):
    status, answer = served.answered(body(), Origin=origin.format(port=served.port))
    assert status == 403
    assert "its own page alone" in answer["error"]


def test_a_form_cannot_ask(served):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, answer = served.answered(body(), Content_Type=kind)
        assert status == 415
        assert "application/json" in answer["error"]


def test_the_page_comes_with_all_its_files_and_knows_who_solves(served):
    status, headers, text = served.ask("GET", "/")
    assert status == 200
    assert b'<meta name="solver" content="server">' in text
    for name, value in HEADERS.items():
        assert headers[name.lower()] == value
    named = re.findall(r'(?:src|href)="([\w.-]+\.(?:js|css|svg))"', text.decode())
    assert {path.name for path in FOLDER.iterdir() if path.suffix in (".js", ".css", ".svg")} == set(named)
    for name in named:
        assert served.ask("GET", f"/{name}")[0] == 200


def test_nothing_else_is_served(served):
    for path in ("/../server.py", "/%2e%2e/server.py", "/server.py", "/answer", "/docs"):
        assert served.ask("GET", path)[0] in (404, 405), path


def test_a_table_comes_with_its_columns_of_numbers(served):
    _, _, text = served.ask("GET", "/table")
    assert json.loads(text) == {
        "name": "good.csv",
        "rows": 3,
        "columns": [
            {"name": "width", "values": [1.0, 1.5, 2.0]},
            {"name": "height", "values": [2.0, None, 2.5]},
            {"name": "weight", "values": [3.0, 4.0, 5.0]},
        ],
    }


def test_questions_that_are_cut_off_or_wait_are_no_error_and_ctrl_c_ends_it_in_order():
    running = Served()
    assert running.ask("GET", "/table")[2] == b"null"
    head = f"POST /answer HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(f"{head}Content-Length: 9\r\n\r\n{{".encode())
    assert running.answered(body())[0] == 200
    # One is answered, and the others wait behind it.
    content = body(points=cloud(MOST_POINTS), grid={"x": [-3, 3, 256], "y": [-3, 3, 256]})
    waiting = [socket.create_connection(("127.0.0.1", running.port), timeout=MOST_SECONDS) for _ in range(8)]
    for connection in waiting:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    # All of these have come before this one, which is answered at once.
    assert running.answered(body(points=[]))[0] == 400
    assert running.end(signal.SIGINT) == (0, "\nStopped.\n", "")
    statuses = set()
    for connection in waiting:
        statuses.add(connection.makefile("rb").readline().split()[1])
        connection.close()
    assert b"503" in statuses <= {b"200", b"503"}


def test_a_body_that_does_not_come_is_not_waited_for():
    parts, sent = [{"type": "http.request", "body": b"{", "more_body": True}], []

    async def receive():
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/answer", "query_string": b"", "headers": headers}
    asyncio.run(application(80, None, Answerer(), 0.01)(scope, receive, send))
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["error"] == "The question did not come within 0.01 seconds."


def test_a_request_that_comes_a_byte_at_a_time_is_not_waited_for():
    running = Served(program=HURRIED)
    host = f"Host: 127.0.0.1:{running.port}\r\n".encode()
    whole = b"GET /table HTTP/1.1\r\n" + host + b"\r\n"
    unasked = b"POST /table HTTP/1.1\r\n" + host + b"Content-Length: 100000\r\n\r\n"
    beginnings = {b"": b"", b"GET /": b"", b"GET / HTTP/1.1\r\n" + host: b"", whole: b"200", unasked: b"405"}
    waiting = []
    for beginning, status in beginnings.items():
        connection = socket.create_connection(("127.0.0.1", running.port), timeout=MOST_SECONDS)
        connection.sendall(beginning)
        assert not status or connection.recv(65536).split()[1] == status
        connection.settimeout(0.01)
        waiting.append(connection)
    begin = time.monotonic()
    while waiting and time.monotonic() < begin + MOST_SECONDS:
        waiting = [connection for connection in waiting if not ended_at_a_byte(connection)]
    assert not waiting
    # What has come in time is answered, and nobody else was held up.
    content = body(points=cloud(MOST_POINTS), grid={"x": [-3, 3, 256], "y": [-3, 3, 256]})
    assert running.answered(content)[0] == 200
    assert running.end(signal.SIGINT) == (0, "", "")


def ended_at_a_byte(connection):
    """Send one more byte; return whether the server has closed the connection."""
    try:
        connection.sendall(b"x")
        ended = connection.recv(65536) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        ended = True
    if ended:
        connection.close()
    return ended


def test_a_port_that_is_taken_is_said():
    with bound(0) as listening, pytest.raises(PortTakenError, match=r"Port \d+ of 127\.0\.0\.1 cannot be had"):
        bound(listening.getsockname()[1])
