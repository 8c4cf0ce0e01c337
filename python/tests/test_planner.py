"""The planner: all workers measure together, decide alike, and what it reckons in bytes is what travels."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from gang import program

from shoal import _shoal, describe

BENCH = Path(__file__).resolve().parents[2] / "bench" / "plan"

SLOW = {"workers": 4, "bandwidth": 118e6, "round_trip": 2e-4, "flops": 5e10}

# A link and a processor that are the same on every machine this runs on.
PRETEND = """
import logging
from shoal import _measure, _planner
lines = []
class Keep(logging.Handler):
    def emit(self, record): lines.append(record.getMessage())
logging.getLogger("shoal").addHandler(Keep())
logging.getLogger("shoal").setLevel(logging.INFO)
link = {"bandwidth": 100e6, "round_trip": 1e-4, "flops": 5e10}
measurements = []
def pretend(prefix, multiply=None):
    workers = len(_measure.gather([0.0], "present"))
    measurements.append(workers)
    return _measure.Measured(workers, 0, 1, link["bandwidth"], link["bandwidth"], link["round_trip"], link["flops"])
_planner._measure.everything = pretend
"""


def test_the_cost_model_answers_python():
    choice = _shoal.choose(elements=1 << 24, rows=32, outputs=4096, inputs=4096, **SLOW)
    assert choice["scheme"] == "factors" and set(choice["costs"]) == {"dense", "factors"}
    assert choice["costs"]["dense"][0] == 2 * 4 * (1 << 24) * 3 / 4
    assert choice["bytes"] == 4 * 33 * 8192 * 3 and choice["seconds"] < choice["costs"]["dense"][1]
    kept = _shoal.choose(elements=1 << 24, rows=32, outputs=4096, inputs=4096, use_sfb="false", **SLOW)
    assert (kept["scheme"], kept["why"]) == ("dense", "use_sfb is off")
    lossy = _shoal.choose(elements=1 << 24, lossy=["bf16"], **SLOW)
    assert lossy["scheme"] == "bf16"
    for wrong in ({"bandwidth": 0.0}, {"workers": 0}, {"use_sfb": "yes"}, {"lossy": ["int4"]}, {"flops": float("nan")}):
        with pytest.raises(ValueError):
            _shoal.choose(elements=1, **{**SLOW, **wrong})


def test_all_decide_alike_and_say_why(gang):
    script = PRETEND + """
shoal.init()
me = shoal.rank()
planner = _planner.Planner("test")
def show():
    planner.saw("head", 1000 * 2048, rows=8 * (me + 1), outputs=1000, inputs=2048)
    planner.saw("unused here", 1 << 20, rows=8 * me, outputs=1024, inputs=1024)
    planner.saw("thin", 4 * 4096, rows=8, outputs=4, inputs=4096)
    planner.saw("conv", 512 * 512 * 9)
def said(choices):
    return {name: [c.scheme, c.rows, c.why] for name, c in choices.items()}
show()
tell(first=said(planner.settle()), lines=list(lines))
del lines[:]
show()
tell(again=said(planner.settle()), more=list(lines), measurements=list(measurements))
link["bandwidth"] = 1e12
_planner._measure.bandwidth_now = lambda measured, prefix: link["bandwidth"]
_planner.CHECK_EVERY = 3
tell(steps=[planner.step() for _ in range(7)], later=said(planner.choices), last=list(lines))
for use_sfb in (True, False):
    planner = _planner.Planner(f"set {use_sfb}", use_sfb)
    show()
    tell(**{str(use_sfb): said(planner.settle())}, asked=len(measurements))
"""
    told = gang.run(3, script, shared_memory=0)
    assert told[0] == told[1] == told[2]
    told = told[0]
    assert told["first"]["head"][:2] == ["factors", 24] and told["first"]["head"][2].startswith("sends ")
    # The first worker had no factors of it to offer.
    assert told["first"]["unused here"][0] == "dense"
    assert told["first"]["thin"][0] == "dense" and "thinner" in told["first"]["thin"][2]
    assert told["first"]["conv"] == ["dense", 0, "no linear layer"]
    assert [line.split(":")[0] for line in told["lines"][1:]] == ["head", "unused here", "thin", "conv"]
    assert told["lines"][0] == "planning for 3 workers, 800 Mbit/s, round trip 100 us, 50.0 GFLOP/s"
    # What has not changed is neither measured nor said again.
    assert (told["again"], told["more"], told["measurements"]) == (told["first"], [], [3])
    # With a link that costs nothing, rebuilding does not pay: noticed at the third step, and at no other.
    assert told["steps"] == [False, False, True, False, False, False, False]
    assert told["later"]["head"][0] == "dense" and told["last"][-1].startswith("head: dense: rebuilding from 24 rows")
    assert told["True"]["head"][:2] == ["factors", 24] and told["False"]["head"][2] == "use_sfb is off"
    assert told["asked"] == 2  # What is given needs no measuring.


def test_what_is_measured_is_the_same_for_all(gang):
    script = """
from shoal import _measure
from shoal._planner import Planner
shoal.init()
planner = Planner("test")
planner.saw("weight", 4096 * 4096, rows=32, outputs=4096, inputs=4096)
start = time.perf_counter()
choice = planner.settle()["weight"]
tell(seconds=time.perf_counter() - start, said=str(planner.measured), **vars(planner.measured))
tell(choice=[choice.scheme, choice.why])
tell(now=_measure.bandwidth_now(planner.measured, "test") > 0)
"""
    for shared_memory, servers in ((0, 0), (1, 0), (0, 1)):
        told = gang.run(2, script, servers=servers, shared_memory=shared_memory)
        print(told[0])
        seconds = [worker.pop("seconds") for worker in told]
        assert told[0] == told[1] and min(seconds) > 0
        assert (told[0]["workers"], told[0]["servers"], told[0]["per_host"], told[0]["now"]) == (2, servers, 2, True)
        # Loose: nothing that runs Python is slower or faster than this.
        assert 1e5 < told[0]["bandwidth"] < 1e13 and 1e5 < told[0]["gather_bandwidth"] < 1e13
        assert 1e7 < told[0]["flops"] < 1e16 and 1e-7 < told[0]["round_trip"] < 10


def test_the_plan_follows_who_is_there(gang):
    """A worker that has finished no longer counts: two remain, who measure and plan again."""
    script = PRETEND + """
shoal.init()
planner = _planner.Planner("test")
def settle():
    planner.saw("head", 1000 * 2048, rows=8, outputs=1000, inputs=2048)
    return planner.settle()["head"].bytes
before = settle()
if shoal.rank() == 2:
    shoal.finish()
else:
    tell(before=before, after=settle(), measurements=measurements)
"""
    told = gang.run(3, script, shared_memory=0)
    part = 4 * 9 * 3048
    assert told[0] == told[1] == {"before": 2 * part, "after": part, "measurements": [3, 2]}


@pytest.mark.parametrize("servers", [0, 2])
def test_bytes_are_as_predicted(gang, servers):
    """What travels is what the model reckons, to the byte, over all workers together."""
    layers = [
        {"name": "conv", "kind": "conv", "shape": [64, 64, 3, 3], "bias": True},
        {"name": "wide", "kind": "linear", "shape": [512, 1024], "bias": True},
        {"name": "head", "kind": "linear", "shape": [10, 512], "bias": False},
        {"name": "thin", "kind": "linear", "shape": [4, 512], "bias": True},
    ]
    for layer in layers:
        layer["forward_seconds"] = layer["backward_seconds"] = 0.001
    script = f"""
sys.path.insert(0, {str(BENCH)!r})
import worker
from shoal import _measure
shoal.init()
measure = lambda: _measure.Measured(3, {servers}, 1, 1e7, 1e7, 1e-4, 1e11)
tell(**worker.check({{"batch": 16, "layers": {layers!r}}}, 2, measure))
"""
    told = gang.run(3, script, servers=servers, shared_memory=0)
    conditions = {"workers": 3, "servers": servers, "bandwidth": 1e7, "round_trip": 1e-4, "flops": 1e11}

    def reckoned(use_sfb):
        total = 0
        for layer in layers:
            size = 1
            for side in layer["shape"]:
                size *= side
            tensor = {"elements": size + (layer["shape"][0] if layer["bias"] else 0)}
            if layer["kind"] == "linear":
                tensor.update(rows=16, outputs=layer["shape"][0], inputs=layer["shape"][1])
            total += _shoal.choose(use_sfb=use_sfb, **conditions, **tensor)["bytes"]
        return 3 * total

    for mode, use_sfb in (("dense", "false"), ("planned", "auto")):
        assert sum(worker[mode]["sent"] for worker in told) == pytest.approx(reckoned(use_sfb), abs=0.01), mode
    assert told[0]["schemes"] == {"conv": "dense", "wide": "factors", "head": "dense", "thin": "dense"}


MODELS = """
    import torch
    from torch import nn

    def mlp():
        print("made")
        return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10, bias=False))

    def cnn(batch):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))
        return model, torch.zeros(batch, 3, 8, 8)

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(self.embed(tokens))

    def tied(batch):
        return Tied(), torch.zeros(batch, 7, dtype=torch.long)

    def attention(batch):
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        return layer, torch.zeros(batch, 5, 16)

    def example():
        return nn.Linear(512, 512), torch.zeros(8, 512)

    def broken():
        raise ValueError("a mistake of the model's own")

    def bare():
        return nn.Sequential(nn.Conv2d(3, 8, 3))

    def two(a, b):
        return None

    def wrong():
        return 5

    def counts():
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x) if float(x.sum()) < 1 else x
        return Counts(), torch.zeros(2, 4)
    size = 3
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    (tmp_path / "models_to_describe.py").write_text(textwrap.dedent(MODELS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("models_to_describe", None)
    sys.modules.pop("described", None)


def test_torch_models_are_described(models, capsys):
    def described(*argv):
        assert describe.main(list(argv)) == 0
        return json.loads(capsys.readouterr().out)

    mlp = described("models_to_describe:mlp", "--batch", "16")
    assert mlp["batch"] == 16
    assert mlp["layers"] == [
        {"name": "0", "kind": "linear", "shape": [30, 20], "bias": True, "rows": 16, "flops": 2 * 16 * 20 * 30},
        {"name": "2", "kind": "linear", "shape": [10, 30], "bias": False, "rows": 16, "flops": 2 * 16 * 30 * 10},
    ]
    cnn = described("models_to_describe.py:cnn", "--batch", "4")["layers"]
    assert [(layer["name"], layer["kind"]) for layer in cnn] == [
        ("0", "conv"),
        ("1.weight", "other"),
        ("1.bias", "other"),
        ("4", "linear"),
    ]
    assert cnn[0]["flops"] == 2 * 4 * 8 * 36 * 27
    # One gradient for a weight that is used twice, which no longer is a linear layer's alone.
    tied = described("models_to_describe:tied", "--batch", "4")["layers"]
    assert [(layer["name"], layer["shape"]) for layer in tied if "shape" in layer] == [("embed.weight", [50, 16])]
    # torch uses the output projection without calling it, so nobody sees its factors.
    attention = {layer["name"]: layer for layer in described("models_to_describe:attention", "--batch", "4")["layers"]}
    first = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    assert list(attention)[:4] == [f"self_attn.{name}" for name in first]
    assert attention["linear1"]["rows"] == 20 and attention["self_attn.out_proj.weight"]["kind"] == "other"
    assert described("models_to_describe:bare", "--input", "3x8x8")["layers"][0]["flops"] == 2 * 32 * 8 * 36 * 27
    # An example is as long as it is, whatever batch was asked for.
    example = described("models_to_describe:example", "--batch", "16")
    assert (example["batch"], example["layers"][0]["rows"]) == (8, 8)
    timed = described("models_to_describe:cnn", "--measure", "--batch", "4")
    assert timed["matrix_flops"] > 0
    assert [layer["name"] for layer in timed["layers"]] == ["0", "1.weight", "1.bias", "4"]
    assert all(timed["layers"][i][f"{way}_seconds"] > 0 for i in (0, 1, 3) for way in ("forward", "backward"))


def test_shoal_plan_takes_torch_models(models):
    """The program asks this Python for the layers; what the model's maker prints gets in nobody's way."""
    plan = [program("shoal"), "plan", "--workers", "4", "--bandwidth", "1gbit", "--python", sys.executable, "--json"]
    plan += ["--batch", "16", "--model"]
    run = subprocess.run([*plan, "models_to_describe.py:mlp"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    layers = json.loads(run.stdout)["layers"]
    assert [(layer["name"], layer["kind"], layer["elements"]) for layer in layers] == [
        ("0", "linear", 630),
        ("2", "linear", 300),
    ]
    assert "made" in run.stderr
    # What is said of an example is scaled to the batch that was asked for.
    run = subprocess.run([*plan, "models_to_describe.py:example"], capture_output=True, text=True)
    costs = json.loads(run.stdout)["layers"][0]["costs"]
    assert [cost["sent"] for cost in costs if cost["scheme"] == "factors"] == [4 * (16 + 1) * 1024 * 3]
    run = subprocess.run([*plan, "models_to_describe.py:broken"], capture_output=True, text=True)
    assert run.returncode == 1 and "ValueError: a mistake" in run.stderr and "hint" not in run.stderr, run.stderr
    run = subprocess.run([*plan, "models_to_describe.py:mpl"], capture_output=True, text=True)
    assert run.returncode == 1 and "did you mean mlp?" in run.stderr and "reason is above" in run.stderr, run.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["models_to_describe"], "no module:function"),
        (["models_to_describe:mpl"], "did you mean mlp?"),
        (["no_such_module:f"], "is the name right"),
        (["nothing.py:f"], "no file nothing.py"),
        (["models_to_describe:bare"], "--input"),
        (["models_to_describe:two"], "needs arguments: a, b"),
        (["models_to_describe:wrong"], "returned int"),
        (["models_to_describe:size"], "no function but int"),
        (["models_to_describe:counts"], "--measure"),
    ],
)
def test_models_that_cannot_be_described(models, capsys, argv, said):
    assert describe.main(argv) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""
