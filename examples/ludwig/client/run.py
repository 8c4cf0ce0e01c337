"""What every run executes: loads its configurations, trains each, and moves data to the shared drive at the end."""

import os
import pickle
import shutil
import socket
import tempfile
from pathlib import Path

from src.letters import train_epoch

project = Path(os.environ.get("SHOAL_SHARE", "/media/research_data")) / "letters-client"
worker_data = Path(tempfile.gettempdir()) / "letters-client"

hostname = socket.gethostname()
with (project / f"{hostname}_param2val_chunk.pkl").open("rb") as f:
    param2val_chunk = pickle.load(f)

for param2val in param2val_chunk:
    text = (project / "corpora" / "poem.txt").read_text()
    worker_data.mkdir(exist_ok=True)
    name = f"data_{os.environ.get('SHOAL_RUN', 'run').replace(':', '_')}.csv"
    with (worker_data / name).open("w") as data:  # intermediate data stays on the worker
        data.write("epoch,bits\n")
        for epoch, bits in enumerate(train_epoch(text, **param2val)):
            data.write(f"{epoch},{bits}\n")
            # Any line of JSON with numbers is a metric of the run; shoal.log() writes the same.
            print(f'{{"step": {epoch}, "bits": {bits}}}', flush=True)
    for path in worker_data.glob("data*.csv"):
        shutil.move(str(path), str(project / path.name))
