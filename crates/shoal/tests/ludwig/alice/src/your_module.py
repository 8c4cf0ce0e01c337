"""Trains nothing, and notes in a ledger on the shared drive what the test wants to know of it."""

import os
import shutil
import socket
import time
from pathlib import Path

DRIVE = Path('/media/research_data')


def note(word, what):
    """One write for a line: several hosts append to this file."""
    run = '{}#{}'.format(os.environ['SHOAL_RUN'], os.environ['SHOAL_ATTEMPT'])
    with open(DRIVE / 'ledger', 'a') as f:
        f.write('{} {} {} {}\n'.format(word, run, socket.gethostname(), what))


def stay():
    """As long as the test wants it."""
    for _ in range(3000):
        if not (DRIVE / 'hold').exists():
            return
        time.sleep(0.02)
    raise SystemExit('nobody let go')


def save_to_worker(folder, name, epoch, value):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / 'data_{}.csv'.format(name), 'a' if epoch else 'w') as f:
        f.write('{},{}\n'.format(epoch, value))


def neural_net_job(param2val):
    assert isinstance(param2val['layers'], tuple), 'tuples stay tuples'
    assert (DRIVE / 'alice_net' / 'corpora' / 'words.txt').read_text() == 'a b c'
    assert (DRIVE / 'alice_net' / 'tasks' / 'task.txt').read_text() == 'count'
    name = '{}_{}'.format(param2val['lr'], os.environ['SHOAL_REP'])
    note('begin', name)
    worker = Path('/home/ludwig/alice_net')
    for epoch in range(3):
        data = param2val['lr'] / (epoch + 1)
        save_to_worker(worker, name, epoch, data)  # save intermediate data to worker
        print('{{"step": {}, "loss": {}}}'.format(epoch, data), flush=True)
    stay()
    # at end of training copy all data files to file server
    for data_path in worker.glob('data*.csv'):
        src = str(data_path)
        dst = '/media/research_data/alice_net/{}'.format(data_path.name)
        shutil.move(src, dst)
    Path('weights.txt').write_text(name)
    note('end', name)
