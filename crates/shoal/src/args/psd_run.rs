//! `psd_run`'s command line, as Poseidon documents it, with a little more.

use clap::Parser;
use std::path::PathBuf;

/// psd_run runs Poseidon for distributed machine learning on a cluster.
#[derive(Debug, Parser)]
#[command(name = "psd_run", version, override_help = HELP)]
pub struct Args {
    #[arg(short = 'c', long = "cluster_config", alias = "cluster-config", value_name = "CLUSTER_CONFIG")]
    pub cluster_config: Option<PathBuf>,

    #[arg(short = 'o', long = "out", value_name = "OUTPUT_FOLDER", default_value = ".")]
    pub out: PathBuf,

    #[arg(long, alias = "no_flags")]
    pub no_flags: bool,

    #[arg(long, value_name = "K=V", value_parser = super::run::key_value)]
    pub env: Vec<(String, String)>,

    #[arg(long, value_name = "FOLDER")]
    pub cwd: Option<String>,

    #[arg(long, alias = "dry_run")]
    pub dry_run: bool,

    #[arg(long)]
    pub detach: bool,

    #[arg(short, long)]
    pub verbose: bool,

    #[arg(long)]
    pub json: bool,

    /// `CMD`, or `CONFIG CMD`: both orders are in Poseidon's documents.
    #[arg(required = true, value_name = "cmd")]
    pub cmd: Vec<String>,
}

const HELP: &str = r#"usage: psd_run [-h] [-c,--cluster_config CLUSTER_CONFIG]
               [-o,--out OUTPUT_FOLDER]
               cmd

psd_run runs Poseidon for distributed machine learning on a GPU cluster. The following are its command line arguments.

positional arguments:
  cmd                   the command every worker runs, in quotes: "python train.py --max_steps 1000"; or a list with one
                        command for each worker: '"python a.py", "python b.py"'

optional arguments:
  -h, --help            show this help message and exit
  -c,--cluster_config CLUSTER_CONFIG   (also --cluster-config)
                        configuration file for cluster environment: specify workers in each machine. See example:
                        {
                          "virtualenv": "/home/ubuntu/sandbox",
                          "username": "ubuntu",
                          "pem_file": "/path/to/pem-file.pem",
                          "master_node": "localhost",
                          "worker_nodes": [
                            "192.168.1.11",
                            "192.168.1.15"
                          ],
                          "server_nodes": [
                            "192.168.1.70",
                            "192.168.1.80"
                          ]
                        }
                        worker_nodes and server_nodes are required. Without the option: config.json in this folder.
  -o,--out OUTPUT_FOLDER
                        output log folder: poseidon_log_<time>/ in it holds master.log, server<k>.log and worker<k>.log,
                        on every node and, gathered while they grow, on this machine

more than Poseidon had:
  --no-flags            do not append --distributed=True --master_address=... --client_id=... to the commands
                        (they are in the environment either way)
  --env K=V             set a variable for every worker
  --cwd FOLDER          where workers run (otherwise: this folder)
  --dry-run             print the whole plan and start nothing
  --detach              return once all have started; see shoal ps, shoal logs, shoal stop
  -v, --verbose         show all output, each line with its rank in front
  --json                print events as JSON, one object a line
  -V, --version         show the version and exit

poseidon_run.log, in this folder, says what was done. The exit code is that of the first process that failed; 0 if none did,
2 if the command line or the configuration file is wrong, 130 after Ctrl-C, 255 if a node could not be reached or was lost.
"#;
