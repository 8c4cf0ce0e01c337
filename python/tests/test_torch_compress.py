"""Lossy schemes in PyTorch: asked for by name, replicas stay identical, the model still learns."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: `cargo xtask test --only python` does it")
pytest.importorskip("shoal._shoal", reason="the package is not installed: `cargo xtask test --only python` does it")

SCRIPT = """
import hashlib, torch, shoal.torch
torch.set_num_threads(1)
shoal.init()
def trained(**how):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(576, 128),
                                torch.nn.ReLU(), torch.nn.Linear(128, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    model, optimizer = shoal.torch.distribute(model, optimizer, use_sfb=False, **how)
    sent = shoal.stats()["bytes_sent"]
    made, losses = torch.Generator().manual_seed(7 + shoal.rank()), []
    for step in range(60):
        x = torch.randn(16, 1, 8, 8, generator=made)
        y = x.mean((1, 2, 3)).mul(40).clamp(0, 3).long()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    return digest, sum(losses[:10]) / 10, sum(losses[-10:]) / 10, shoal.stats()["bytes_sent"] - sent
for name in (None, "bf16", "int8", "powersgd:2"):
    tell(**{str(name): trained(compress=name)})
try:
    shoal.torch.distribute(torch.nn.Linear(2, 2), compress="gzip")
except ValueError as error:
    tell(wrong=str(error))
"""


def test_lossy_schemes(gang):
    one, other = gang.run(2, SCRIPT, shared_memory=0)
    for scheme in ("None", "bf16", "int8", "powersgd:2"):
        assert one[scheme][0] == other[scheme][0], f"{scheme}: replicas differ (GRAD-3)"
        digest, first, last, sent = one[scheme]
        assert last < first, f"{scheme} does not learn: {first} to {last}"
        if scheme != "None":
            assert sent < 0.75 * one["None"][3], f"{scheme} sends {sent} bytes of {one['None'][3]}"
            assert digest != one["None"][0], f"{scheme} changes nothing"
    assert "gzip" in one["wrong"] and "powersgd:RANK" in one["wrong"]


ORDERS = """
import hashlib, logging, torch, shoal.torch
torch.set_num_threads(1)
logging.basicConfig(level=logging.INFO, format="%(message)s")
shoal.init()
class Both(torch.nn.Module):
    # Backward goes through the branches in the reverse order of their forwards, which here is not the same on all workers.
    def __init__(self, turned):
        super().__init__()
        self.a, self.b, self.small = torch.nn.Linear(128, 96), torch.nn.Linear(128, 96), torch.nn.Linear(96, 4)
        self.turned = turned
    def forward(self, x):
        parts = [self.b(x), self.a(x)][::-1] if self.turned else [self.b(x), self.a(x)]
        return self.small(parts[0] * parts[1])
def trained(use_sfb, turned, looks):
    torch.manual_seed(0)
    model = Both(turned)
    model, optimizer = shoal.torch.distribute(model, torch.optim.SGD(model.parameters(), 0.01), use_sfb, compress="powersgd:2")
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(8 if step < 3 else 12, 128)).square().mean().backward()
        if looks and shoal.rank() == 0:
            tell(norm=float(model.a.weight.grad.norm()) + float(model.b.weight.grad.norm()))
        optimizer.step()
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
for use_sfb in (False, True):  # where factors do not fit, their layers go lossy in the middle of a wait
    tell(**{f"{use_sfb} turned": trained(use_sfb, shoal.rank() == 1, False)})
    tell(**{f"{use_sfb} looks": trained(use_sfb, False, True)})
    tell(**{f"{use_sfb} both": trained(use_sfb, shoal.rank() == 1, True)})
"""


def test_workers_may_wait_for_two_messages_of_one_gradient_in_any_order(gang):
    """PowerSGD speaks twice; workers that waited for one gradient's second answer before sending another's waited for each other."""
    started = gang.start([ORDERS] * 2, shared_memory=0)
    for worker in started:
        assert worker.end() == 0, worker.err.read_text()
    one, other = ({k: v for line in worker.told() for k, v in line.items()} for worker in started)
    assert one.pop("norm") > 0 and one == other and len(one) == 6
    said = started[0].err.read_text()
    assert "torch0.a.weight: powersgd:2: asked for by compress='powersgd:2'" in said, said
    assert "torch0.small.weight: dense: small, so it travels with others, as it is" in said, said
    assert "torch3.a.weight: factors:" in said and "torch0.a.weight: dense" not in said, said
