"""The official Python client does everything it can do, on every surface."""

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from durable_streams import (
    AsyncDurableStream,
    DurableStream,
    RetentionGoneError,
    SeqConflictError,
    StreamExistsError,
    StreamNotFoundError,
    astream,
    stream,
)

WAIT_SECONDS = 20
BYTES = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


def read_all(url, **options):
    with stream(url, live=False, **options) as response:
        return response.read_bytes()


def test_bytes_come_back_exactly(url):
    blob = bytes(range(256)) * 1000
    with DurableStream.create(url, content_type=BYTES, body=b"\x00first") as handle:
        handle.append(blob)
        handle.append(b"last")
        assert handle.content_type == BYTES
    assert read_all(url) == b"\x00first" + blob + b"last"


def test_an_append_answers_where_to_read_on(url):
    with DurableStream.create(url, content_type=TEXT) as handle:
        first = handle.append("one")
        second = handle.append("two")
        head = handle.head()
    assert read_all(url, offset=first.next_offset) == b"two"
    assert read_all(url, offset=second.next_offset) == b""
    assert head.offset == second.next_offset > first.next_offset
    assert head.content_type == TEXT


def test_json_values_keep_their_shape(url):
    values = [{"a": [1, {"b": None}]}, [1, 2], "\u2028 \U0001f30a", 0, -1.5, True, None, [], {}]
    with DurableStream.create(url, content_type=JSON) as handle:
        for value in values:
            handle.append(value)
        with handle.stream(live=False) as response:
            assert response.read_json() == values
        with handle.stream(live=False) as response:
            assert list(response.iter_json()) == values


def test_appends_from_many_threads_all_arrive_once(url):
    with DurableStream.create(url, content_type=JSON) as handle:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(handle.append, range(200)))
        with handle.stream(live=False) as response:
            assert sorted(response.read_json()) == list(range(200))


def test_an_event_names_the_offset_behind_it(url):
    with DurableStream.create(url, content_type=JSON) as handle:
        end = handle.append({"n": 1}).next_offset
        with handle.stream(live=False) as response:
            events = list(response.iter_events(mode="json"))
    assert [(e.data, e.next_offset, e.up_to_date) for e in events] == [([{"n": 1}], end, True)]


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_a_tail_gets_what_was_there_and_what_comes(url, live):
    with DurableStream.create(url, content_type=JSON, body=[0, 1]) as handle:
        caught_up = threading.Event()

        def tail():
            received = []
            with stream(url, offset="-1", live=live) as response:
                for value in response.iter_json():
                    received.append(value)
                    if value == 1:
                        caught_up.set()
                    if value == 9:
                        return received

        with ThreadPoolExecutor(1) as pool:
            received = pool.submit(tail)
            assert caught_up.wait(WAIT_SECONDS)
            for value in range(2, 10):
                handle.append(value)
            assert received.result(WAIT_SECONDS) == list(range(10))


def test_a_long_poll_outlives_its_time_outs(url):
    """Longer than the server's long-poll timeout passes before anything is appended."""
    with DurableStream.create(url, content_type=BYTES) as handle:
        # Half a second is the timeout that the tests start the server with.
        timer = threading.Timer(1.2, handle.append, [b"at last"])
        timer.start()
        with stream(url, offset="-1", live="long-poll") as response:
            assert next(chunk for chunk in response if chunk) == b"at last"
        timer.join()


def test_text_over_sse_is_unchanged(url):
    texts = ["plain\n", " leading space\n", "data: x\nevent: y\n\n", "\u00e4\U0001f30a", "end"]
    with DurableStream.create(url, content_type=TEXT) as handle:
        for text in texts:
            handle.append(text)
        received = ""
        with handle.stream(offset="-1", live="sse") as response:
            for piece in response.iter_text():
                received += piece
                if received.endswith("end"):
                    break
    assert received == "".join(texts)


def test_an_older_seq_is_refused(url):
    with DurableStream.create(url, content_type=TEXT) as handle:
        handle.append("a", seq="0002")
        with pytest.raises(SeqConflictError):
            handle.append("b", seq="0001")
    assert read_all(url) == b"a"


def test_creating_twice_is_fine_only_with_the_same_type(url):
    DurableStream.create(url, content_type=TEXT, body="kept").close()
    DurableStream.create(url, content_type=TEXT).close()
    with pytest.raises(StreamExistsError):
        DurableStream.create(url, content_type=JSON)
    assert read_all(url) == b"kept"


def test_a_deleted_stream_is_not_found(url):
    with DurableStream.create(url, content_type=TEXT) as handle:
        handle.delete()
    with pytest.raises(StreamNotFoundError):
        DurableStream.connect(url)
    with pytest.raises(StreamNotFoundError):
        stream(url)


def test_the_async_client_writes_and_tails(url):
    async def scenario():
        handle = await AsyncDurableStream.create(url, content_type=JSON)
        async with handle:
            await asyncio.gather(*(handle.append(n) for n in range(50)))
            received = []
            async with astream(url, offset="-1", live="sse") as response:
                async for value in response.iter_json():
                    received.append(value)
                    if len(received) == 50:
                        break
            return received

    received = asyncio.run(asyncio.wait_for(scenario(), WAIT_SECONDS))
    assert sorted(received) == list(range(50))


def test_discarded_history_is_reported_as_such(server, bucket):
    url = f"{server}/{bucket}/{uuid.uuid4()}"
    with DurableStream.create(url, content_type=TEXT) as handle:
        end = handle.append("gone").next_offset
        handle.append("kept")
    # The client knows nothing of snapshots: this is the extension, by hand.
    assert httpx.put(f"{url}/snapshot/{end}", content=b"image").status_code == 204
    assert httpx.put(f"{url}/retention/{end}").status_code == 204
    with pytest.raises(RetentionGoneError):
        stream(url, offset="-1")
    assert read_all(url, offset=end) == b"kept"
