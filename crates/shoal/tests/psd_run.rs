//! `psd_run` as Poseidon's documents have it: the same JSON, options, commands and logs, on hosts over real ssh.

mod support;

use support::launching::{Case, Lab};
use support::quoting;

#[test]
fn as_in_poseidons_documents() {
    let Some(lab) = Lab::up("psd", 3) else { return };
    for host in 0..3 {
        // A virtualenv whose python says so.
        lab.on(host, "mkdir -p /home/venv/bin && printf '#!/bin/sh\\necho venv $VIRTUAL_ENV; exec /usr/bin/python3 \"$@\"\\n' > /home/venv/bin/python && chmod +x /home/venv/bin/python");
    }
    lab.run(&[
        ("document", document),
        ("spellings", spellings),
        ("list", list),
        ("no-flags", no_flags),
        ("quoting", quoting_is_exact),
        ("fails", fails),
        ("no-virtualenv", no_virtualenv),
        ("several-roles", several_roles),
    ]);
    lab.is_clean();
}

/// The configuration of the documents, with the lab's addresses.
fn config(case: &Case, workers: &[usize], servers: &[usize], more: &str) -> String {
    let list = |hosts: &[usize]| {
        let quoted: Vec<String> = hosts.iter().map(|i| format!("\"{}\"", case.address(*i))).collect();
        quoted.join(", ")
    };
    let key = case.lab.hosts().key();
    let text = format!(
        "{{\n  \"username\": \"root\",\n  \"pem_file\": \"{}\",{more}\n  \"worker_nodes\": [{}],\n  \"server_nodes\": [{}]\n}}\n",
        key.display(),
        list(workers),
        list(servers),
    );
    case.file("config.json", &text);
    text
}

/// Everything at once: a node listed twice, servers, a virtualenv, logs on every node and here, the record.
fn document(case: &Case) {
    config(case, &[0, 0, 1], &[1, 2], "\n  \"virtualenv\": \"/home/venv\",");
    let print = "python -c 'import sys; print(sys.argv[1:])' --max_steps 1000";
    case.psd_run(&["-c", "config.json", "-o", "logs", print]).run().exits(0).looks_like("psd_run_finished");
    let names: Vec<String> = case.logs("logs").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["master.log", "server0.log", "server1.log", "worker0.log", "worker1.log", "worker2.log"]);
    let folder = case.log_folder("logs");
    let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let stamp = name.strip_prefix("poseidon_log_").unwrap_or_else(|| panic!("{name}"));
    assert!(stamp.len() == 15 && stamp.as_bytes()[8] == b'_', "{name}");
    for (rank, host) in [("worker0", 0), ("worker1", 0), ("worker2", 1), ("server0", 1), ("server1", 2)] {
        let path = folder.join(format!("{rank}.log"));
        assert_eq!(case.lab.on(host, &format!("cat {}", path.display())), case.log("logs", rank).trim_end(), "{rank}");
    }
    let said = case.log("logs", "worker2");
    assert!(
        said.starts_with("venv /home/venv\n['--max_steps', '1000', '--distributed=True', '--master_address=tcp://"),
        "{said}"
    );
    // The master is here, and this is where the hosts find it.
    assert!(said.contains(&case.lab.hosts().gateway().to_string()) && said.ends_with("'--client_id=2']\n"), "{said}");
    let record = std::fs::read_to_string(case.folder.join("poseidon_run.log")).expect("poseidon_run.log");
    for part in ["of 6 ranks on 4 hosts", "worker2 started on", "worker2 on"] {
        assert!(record.contains(part), "{record}");
    }
}

fn spellings(case: &Case) {
    config(case, &[0], &[0], "");
    for args in [
        &["-c", "config.json", "-o", "a", "true"][..],
        &["--cluster_config", "config.json", "--out", "b", "true"],
        &["--cluster-config=config.json", "--out=c", "true"],
        &["-o", "d", "config.json", "true"],
        &["-o", "e", "true"],
    ] {
        case.psd_run(args).run().exits(0);
    }
    for out in ["a", "b", "c", "d", "e"] {
        assert_eq!(case.logs(out).len(), 3, "{out}");
    }
}

/// One command for each worker.
fn list(case: &Case) {
    config(case, &[0, 1], &[0], "");
    let commands = "\"echo first; echo \\\"a, b\\\"; :\", 'echo second; :'";
    case.psd_run(&["-c", "config.json", "-o", "logs", commands]).run().exits(0);
    assert_eq!(case.log("logs", "worker0"), "first\na, b\n");
    assert_eq!(case.log("logs", "worker1"), "second\n");
}

fn no_flags(case: &Case) {
    config(case, &[0], &[0], "");
    let script = "echo \"$@\" $SHOAL_CLIENT_ID";
    let command = format!("sh -c '{script}' sh one");
    case.psd_run(&["-c", "config.json", "-o", "with", &command]).run().exits(0);
    assert!(case.log("with", "worker0").starts_with("one --distributed=True --master_address=tcp://"));
    case.psd_run(&["--no-flags", "-c", "config.json", "-o", "without", &command]).run().exits(0);
    assert_eq!(case.log("without", "worker0"), "one 0\n");
}

/// The command is a shell line: what is quoted in it arrives as it is, and what is not is the shell's.
fn quoting_is_exact(case: &Case) {
    config(case, &[0], &[0], "");
    let words: Vec<String> = quoting::WORDS.iter().map(|w| format!("'{}'", w.replace('\'', "'\\''"))).collect();
    let command = format!("ODD=x /usr/bin/python3 -c \"{}\" {}", quoting::PRINT, words.join(" "));
    case.psd_run(&["--no-flags", "-c", "config.json", "-o", "logs", &command]).run().exits(0);
    let (expected, _) =
        quoting::listed(&quoting::WORDS).rsplit_once(" [").map(|(a, b)| (a.to_string(), b.len())).expect("a list");
    assert_eq!(case.log("logs", "worker0"), format!("{expected} ['x']\n"));
    let shell = "x=1; echo $((x + 1)) $SHOAL_NUM_WORKERS; echo \"~ is $HOME\" # a comment";
    case.psd_run(&["--no-flags", "-c", "config.json", "-o", "shell", shell]).run().exits(0);
    assert_eq!(case.log("shell", "worker0"), "2 1\n~ is /root\n");
}

fn fails(case: &Case) {
    config(case, &[0, 1], &[1], "");
    let script = "sh -c 'echo loss is nan >&2; [ $SHOAL_CLIENT_ID = 1 ] && exit 3; exec sleep 300'";
    case.psd_run(&["-c", "config.json", "-o", "logs", script]).run().exits(3).looks_like("psd_run_worker_fails");
    let record = std::fs::read_to_string(case.folder.join("poseidon_run.log")).expect("poseidon_run.log");
    assert!(record.contains("worker1 on") && record.contains("exit 3"), "{record}");
}

fn no_virtualenv(case: &Case) {
    config(case, &[0], &[0], "\n  \"virtualenv\": \"/home/sandbox\",");
    case.psd_run(&["-c", "config.json", "-o", "logs", "python train.py"])
        .run()
        .exits(126)
        .looks_like("psd_run_no_virtualenv");
}

/// More workers than servers, and each worker finds the master with the run's token.
fn several_roles(case: &Case) {
    config(case, &[0, 1, 2, 2], &[0], "");
    // The master may take a moment longer than the workers to be there.
    let ask = "/root/.cache/shoal/bin/*/ps_master --status --json --address ${SHOAL_MASTER_ADDRESS#tcp://}";
    let script = format!("for i in $(seq 300); do {ask} 2>/dev/null && exit 0; sleep 0.1; done; exit 1");
    case.psd_run(&["--no-flags", "-c", "config.json", "-o", "logs", &script]).run().exits(0);
    for k in 0..4 {
        let answer = case.log("logs", &format!("worker{k}"));
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"));
        assert_eq!(answer["complete"], false, "{answer}");
    }
}
