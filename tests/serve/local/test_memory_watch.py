"""Processes that the kernel ended for want of memory are noticed, and counted once."""

from demur.serve.local.memory_watch import MemoryWatch


def test_only_what_happens_after_the_start_counts_and_once(tmp_path):
    counter = tmp_path / "memory.events"
    counter.write_text("low 0\nhigh 0\nmax 0\noom 3\noom_kill 2\n")
    watch = MemoryWatch((tmp_path / "missing", counter))
    assert watch.ended() == 0
    counter.write_text("low 0\nhigh 0\nmax 0\noom 5\noom_kill 4\n")
    assert watch.ended() == 2
    assert watch.ended() == 0


def test_where_nothing_counts_nothing_is_said(tmp_path):
    assert MemoryWatch((tmp_path / "missing",)).ended() == 0


def test_this_machine_can_be_read():
    assert MemoryWatch().ended() >= 0
