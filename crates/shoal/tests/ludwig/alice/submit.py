import sys
from pathlib import Path
from ludwigcluster.client import Client

# create list of neural network parameter configurations to trian on cluster
param2val_list = [{'lr': float(lr), 'layers': (2, 3)} for lr in sys.argv[1:]]  # each is a dict mapping a parameter name to a value
# submit
client = Client('alice_net')  # creates a directory on server
client.submit(src_ps=[Path('src')],  # specify path to source code (is uploaded to worker)
              data_ps=[Path('corpora'), Path('tasks')],  # specify paths to any data (is uploaded to file server)
              param2val_list=param2val_list,
              reps=2)  # number of replications per job
