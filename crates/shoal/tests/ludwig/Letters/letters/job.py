"""One run: returns named Series, which become files. Notes in the ledger what the test wants to know of it."""

import os
import socket
import time
from pathlib import Path

import pandas as pd

DRIVE = Path('/media/research_data')


def note(word, what):
    run = '{}#{}'.format(os.environ['SHOAL_RUN'], os.environ['SHOAL_ATTEMPT'])
    with open(DRIVE / 'ledger', 'a') as f:
        f.write('{} {} {} {}\n'.format(word, run, socket.gethostname(), what))


def main(param2val):
    assert param2val['sizes'] == (8, 8)
    name = '{}_{}'.format(param2val['order'], os.environ['SHOAL_REP'])
    note('begin', name)
    for _ in range(3000):
        if not (DRIVE / 'hold').exists():
            break
        time.sleep(0.02)
    else:
        raise SystemExit('nobody let go')
    (Path(param2val['save_path']) / 'contexts.txt').write_text(name)
    note('end', name)
    return [pd.Series([param2val['order'] * 1.5, param2val['order'] * 0.5], index=[1, 2], name='bits')]
