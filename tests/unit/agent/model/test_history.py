from hypothesis import given
from hypothesis import strategies as st

from agent.model.history import HistoryView

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=5).map(
    lambda pairs: HistoryView(tuple((start, start + size) for start, size in pairs))
)


@given(spans)
def test_dump_and_load_are_inverse(view: HistoryView) -> None:
    assert HistoryView.load(view.dump()) == view


@given(spans, st.integers(100, 200), st.integers(0, 9))
def test_added_messages_stand_at_the_end(view: HistoryView, start: int, count: int) -> None:
    longer = view.with_added(start, count)

    assert list(longer.positions()) == [*view.positions(), *range(start, start + count)]
    assert longer.added_since(view) == list(range(start, start + count))


@given(spans, st.integers(0, 200))
def test_last_keeps_the_newest_in_order(view: HistoryView, count: int) -> None:
    kept = list(view.last(count).positions())

    assert kept == (list(view.positions())[-count:] if count else [])


@given(spans)
def test_summary_goes_in_front(view: HistoryView) -> None:
    assert list(view.behind(999).positions()) == [999, *view.positions()]


def test_another_past_is_no_continuation() -> None:
    assert HistoryView(((0, 4), (9, 12))).added_since(HistoryView(((0, 6),))) is None
