"""How training ends in PyTorch: together, or by name; and what a gradient that nobody reads, or a weight, leaves behind."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: `cargo xtask test --only python` does it")
pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

TRAIN = """
import torch, shoal.torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer = shoal.torch.distribute(model, optimizer)
def backward(value=1.0):
    optimizer.zero_grad()
    model(torch.full((4, 8), value)).sum().backward()
"""


def test_a_script_that_ends_before_the_others_is_an_error(gang):
    """Otherwise the others would go on alone, and the models would part without a word (GRAD-5)."""
    script = TRAIN + """
for step in range(5 - shoal.rank()):
    backward()
    optimizer.step()
"""
    workers = gang.start([script, script])
    codes = [worker.end() for worker in workers]
    said = "".join(worker.err.read_text() for worker in workers)
    assert all(codes), said
    assert "the end of the script" in said and "shoal.finish()" in said and "torch0." in said, said


def test_a_worker_that_says_so_may_end_sooner(gang):
    script = TRAIN + """
for step in range(5 - shoal.rank()):
    backward()
    optimizer.step()
shoal.finish()
tell(done=True)
"""
    assert gang.run(2, script) == [{"done": True}] * 2


def test_gradients_that_nobody_read_are_no_reason_to_fail(gang):
    """A last backward without a step; gradients thrown away; a step made by hand."""
    script = TRAIN + """
backward()
optimizer.step()
backward()
with torch.no_grad():
    for p in model.parameters():
        p -= 0.1 * p.grad
backward()
tell(weight=float(model.weight.detach().sum()))
"""
    one, other = gang.run(2, script)
    assert one == other


def test_a_weight_is_for_the_next_backward_alone(gang):
    script = TRAIN + """
shoal.torch.set_weight([1, 3][shoal.rank()])
backward(float(shoal.rank()))
tell(weighted=float(model.weight.grad[0, 0]))
backward(float(shoal.rank()))
tell(plain=float(model.weight.grad[0, 0]))
"""
    for told in gang.run(2, script):
        assert told["weighted"] == pytest.approx(4 * 3 / 4) and told["plain"] == pytest.approx(4 * 1 / 2)


def test_without_a_launcher_it_trains_alone():
    script = "import shoal; shoal.init(); print(shoal.rank(), shoal.size())"
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=60)
    assert done.stdout.split() == ["0", "1"] and "shoal run -n 4" in done.stderr, done


REPLACED = TRAIN + """
local = torch.nn.Linear(8, 2)
model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
for here in (local, model) if REPLACES else (local,):
    optimizer = torch.optim.SGD(here.parameters(), 0.1)
    for _ in range(3):
        here(torch.ones(4, 8)).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("replaces", [True, False])
def test_parameters_put_in_place_of_distributed_ones_are_told_once(gang, replaces):
    """``load_state_dict(assign=True)``: nothing would synchronise them, and nothing said so. A model of one's own is one's own."""
    for worker in gang.start([f"REPLACES = {replaces}\n" + REPLACED] * 2):
        assert worker.end() == 0, worker.err.read_text()
        assert worker.err.read_text().count("2 of an optimizer's 2 parameters came after distribute()") == replaces
