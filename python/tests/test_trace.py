"""The timeline is a file that Chrome and Perfetto read: JSON, a track per key, events in order and well nested."""

import json

import pytest

pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

TRAINS = """
shoal.init()
me = shoal.rank()
shoal.push_pull(np.ones(5, dtype=np.float32), name="before")

@shoal.trace.span("step")
def step(number):
    with shoal.trace.span("forward", number=number):
        time.sleep(0.002)
    a, b = np.ones(5, dtype=np.float32), np.ones(400_000, dtype=np.float32)
    late = np.ones(7, dtype=np.float32)
    handles = [shoal.push_pull_async(a, name="small"), shoal.push_pull_async(b, name="large")]
    if me == 1:
        time.sleep(0.1)
    handles.append(shoal.push_pull_async(late, name="late"))
    rows = np.zeros((shoal.size(), 3), dtype=np.float32)
    handles.append(shoal.all_gather_async(rows, "rows"))
    for handle in handles:
        handle.wait()

with shoal.trace("trace.json"):
    for number in range(3):
        step(number)
step(9)
tell(on=shoal.trace.is_on)
"""


def check(path, rank):
    """The events of a file, by track, after everything a viewer relies on has been looked at."""
    events = json.loads(path.read_text())["traceEvents"]
    names, tracks = {}, {}
    for event in events:
        assert event["pid"] == rank and isinstance(event["tid"], int)
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
            continue
        assert event["ph"] == "X" and event["ts"] > 0 and event["dur"] >= 0 and event["name"], event
        tracks.setdefault(event["tid"], []).append(event)
    for track in tracks.values():
        assert [e["ts"] for e in track] == sorted(e["ts"] for e in track), "not in order of time"
        open_until = []
        for event in track:
            begin, end = round(event["ts"] * 1000), round(event["ts"] * 1000) + round(event["dur"] * 1000)
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1], f"{event} sticks out of what it is in"
            open_until.append(end)
    return {names[tid]: track for tid, track in tracks.items()}


WAYS = pytest.mark.parametrize("way", [{"shared_memory": 0}, {"shared_memory": 1}, {"servers": 1, "shared_memory": 1}])


PHASES = ("queue", "wire", "waiting")


def phases(track, key):
    """The phases within each step of a key, in order; whom they waited for is left out."""
    steps = [e for e in track if e["name"] == key]
    inside = [[e["name"].split(" for rank")[0] for e in track if _within(e, step) and e["name"] != key] for step in steps]
    return [[name for name in names if name in PHASES] for names in inside]


def _within(event, step):
    return event["args"]["step"] == step["args"]["step"]


@WAYS
def test_a_track_per_key_with_its_phases_and_spans(gang, way):
    assert [told["on"] for told in gang.run(2, TRAINS, **way)] == [False, False]
    for rank in (0, 1):
        tracks = check(gang.folder / f"trace.rank{rank}.json", rank)
        assert "before" not in tracks
        for key in ("small", "large", "late", "rows (all_gather)"):
            steps = [e for e in tracks[key] if e["name"] == key]
            assert [e["args"]["step"] for e in steps] == [0, 1, 2], (key, steps)
        spans = tracks["thread MainThread"]
        assert [e["name"] for e in spans] == ["step", "forward"] * 3
        assert [e["args"]["number"] for e in spans if e["name"] == "forward"] == [0, 1, 2]
    # Rank 1 comes 0.1 s late every time; rank 0's timeline says so.
    tracks = check(gang.folder / "trace.rank0.json", 0)
    late = [e for e in tracks["late"] if e["name"] == "late"]
    assert all(e["args"].get("waited for rank") == 1 for e in late), late
    assert [e["name"] for e in tracks["late"]].count("waiting for rank 1") == 3, tracks["late"]
    # In memory there is only the waiting. Over the network what is large lies in the queue, is on the wire, and waits for the
    # others; of what is small a worker may own the shard, or all may leave in one piece.
    for rank in (0, 1):
        tracks = check(gang.folder / f"trace.rank{rank}.json", rank)
        for key in ("small", "large", "late"):
            for found in phases(tracks[key], key):
                assert found == [name for name in PHASES if name in found], (rank, key, found)
                assert "waiting" in found or "servers" in way, "where one sends for all of the host, the others have no part in it"
                if way == {"shared_memory": 1}:
                    assert found == ["waiting"], (rank, key, found)
        if way == {"shared_memory": 0}:
            assert phases(tracks["large"], "large") == [list(PHASES)] * 3, tracks["large"]


def test_the_environment_switches_it_on_and_the_end_of_the_script_writes_it(gang):
    script = """
    shoal.init()
    shoal.push_pull(np.ones(5, dtype=np.float32), name="w")
    """
    gang.run(2, script, trace=gang.folder / "t.json")
    for rank in (0, 1):
        track = check(gang.folder / f"t.rank{rank}.json", rank)["w"]
        assert [e["args"]["step"] for e in track if e["name"] == "w"] == [0]


def test_a_file_that_cannot_be_written_is_found_at_the_start(gang):
    script = """
    shoal.init()
    try:
        shoal.trace("nowhere/trace.json")
    except FileNotFoundError as error:
        tell(said=str(error), on=shoal.trace.is_on)
    """
    for told in gang.run(2, script):
        assert "nowhere/trace.rank" in told["said"] and not told["on"]


LAYERS = """
import torch, shoal.torch
torch.set_num_threads(1)
torch.manual_seed(0)
shoal.init()
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = shoal.torch.distribute(model, optimizer, use_sfb=True)
def step():
    optimizer.zero_grad()
    with shoal.trace.span("backward"):
        model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
step()
with shoal.trace("outer.json"):
    step()
    with shoal.trace("inner.json"):
        step()
        step()
step()
from torch.nn.modules import module
tell(hooks=len(module._global_forward_hooks))
"""


def test_with_torch_a_track_shows_what_is_computed_layer_by_layer(gang):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert gang.run(2, LAYERS) == [{"hooks": 0}] * 2
    for rank in (0, 1):
        # A second file while one is under way: the first is written, and both are whole.
        for name, steps in (("outer", 1), ("inner", 2)):
            tracks = check(gang.folder / f"{name}.rank{rank}.json", rank)
            names = [event["name"] for event in tracks["compute"]]
            one = ["forward torch0.0", "forward torch0.2"]
            assert [n for n in names if n.startswith("forward")] == one * steps, names
            backward = [n for n in names if n.startswith("backward")]
            wanted = [f"backward torch0.{k}.{p}" for k in (0, 2) for p in ("weight", "bias")]
            assert sorted(backward) == sorted(wanted * steps), names
            assert names.count("step") == steps and names[-1] == "step", names


def test_a_name_that_is_none_is_refused(gang):
    script = """
    shoal.init()
    for name in ("", "/tmp/"):
        try:
            shoal.trace(name)
        except ValueError as error:
            tell(said=str(error), on=shoal.trace.is_on)
    """
    workers = gang.start([script] * 2)
    for worker in workers:
        assert worker.end() == 0, worker.err.read_text()
        assert all("the name of a file" in told["said"] and not told["on"] for told in worker.told()), worker.told()
        assert len(worker.told()) == 2
