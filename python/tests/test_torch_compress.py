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
