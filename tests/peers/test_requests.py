"""Table of pending requests: a reply finds its request once, a lost peer all of its requests."""

from __future__ import annotations

from mirrormq.peers.requests import PendingRequests


def test_a_reply_takes_its_request_once() -> None:
    requests = PendingRequests[str]()
    first, second = requests.add("a"), requests.add("b")
    assert requests.get(second) == "b" and len(requests) == 2
    assert (requests.take(second), requests.take(second), requests.get(second)) == ("b", None, None)
    assert list(requests) == ["a"] and requests.take(first) == "a"


def test_numbers_are_not_used_twice() -> None:
    requests = PendingRequests[str]()
    numbers = [requests.add("a")]
    requests.take(numbers[0])
    assert requests.add("b") not in numbers


def test_a_lost_peer_takes_its_requests_in_order_and_no_others() -> None:
    requests = PendingRequests[tuple[str, int]]()
    for number, peer in enumerate("abab"):
        requests.add((peer, number))
    assert requests.take_if(lambda entry: entry[0] == "a") == [("a", 0), ("a", 2)]
    assert requests.take_all() == [("b", 1), ("b", 3)]
    assert not len(requests)


def test_a_caller_may_draw_the_numbers() -> None:
    requests = PendingRequests[str]()
    requests.put(17, "a")
    assert requests.take(17) == "a"
