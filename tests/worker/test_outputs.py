"""Tokens between an input's first and its last reach the session together, in order, and none is lost."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metrobench.worker.outputs import Gather


class Processor:
    """Takes what vLLM's OutputProcessor would."""

    def __init__(self) -> None:
        self.request_states = {name: SimpleNamespace(external_req_id=name.upper()) for name in "ab"}
        self.calls: list[list[Any]] = []

    def process_outputs(self, outputs: list[Any], *_: Any, **__: Any) -> None:
        self.calls.append([(o.request_id, list(o.new_token_ids), o.finish_reason) for o in outputs])


def output(request: str, tokens: list[int], finish: str | None = None, events: object = None) -> Any:
    return SimpleNamespace(request_id=request, new_token_ids=tokens, finish_reason=finish, events=events)


def test_the_first_token_comes_at_once_and_the_rest_with_the_last():
    processor = Processor()
    Gather(processor)
    for step in ([output("a", [1])], [output("a", [2])], [output("a", [3])], [output("a", [4], "length")]):
        processor.process_outputs(step)
    assert processor.calls == [[("a", [1], None)], [], [], [("a", [2, 3, 4], "length")]]


def test_the_next_input_begins_anew():
    processor = Processor()
    Gather(processor)
    for step in ([output("a", [1], "length")], [output("a", [2])], [output("a", [3], "length")]):
        processor.process_outputs(step)
    assert processor.calls == [[("a", [1], "length")], [("a", [2], None)], [("a", [3], "length")]]


def test_an_output_that_brings_events_is_never_held_back():
    processor = Processor()
    Gather(processor)
    for step in ([output("a", [1])], [output("a", [2])], [output("a", [3], events=["preempted"])]):
        processor.process_outputs(step)
    assert processor.calls[-1] == [("a", [2, 3], None)]


def test_the_time_of_an_input_s_last_token_is_noted_under_the_request_s_own_name():
    processor = Processor()
    gather = Gather(processor)
    steps = [(1.0, output("a", [1])), (2.0, output("a", [2], "length")), (3.0, output("b", [3]))]
    for sampled, each in steps:
        processor.process_outputs([each], sampled)
    assert gather.ended == {"A": 2.0}


def test_what_an_aborted_request_left_is_forgotten():
    processor = Processor()
    gather = Gather(processor)
    for step in ([output("a", [1]), output("b", [2])], [output("a", [3])]):
        processor.process_outputs(step)
    del processor.request_states["a"]
    processor.process_outputs([])
    assert set(gather._held) == {"b"}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.booleans(), st.booleans()), max_size=60))
def test_every_token_arrives_once_and_in_order(steps: list[tuple[str, int, bool, bool]]):
    processor = Processor()
    Gather(processor)
    sent: dict[str, list[int]] = {"a": [], "b": []}
    last = {"a": 0, "b": 0}
    for number, (request, count, ends, events) in enumerate([*steps, ("a", 1, True, False), ("b", 1, True, False)]):
        tokens = [10 * number + place for place in range(count)]
        sent[request] += tokens
        last[request] = number
        processor.process_outputs([output(request, tokens, "length" if ends else None, ["x"] if events else None)])
    got: dict[str, list[int]] = {"a": [], "b": []}
    for call in processor.calls:
        for request, tokens, _ in call:
            got[request] += tokens
    assert got == sent
