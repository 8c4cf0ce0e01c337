use std::time::Instant;
#[test]
fn big() {
    let n = 2 << 20;
    let cases: Vec<(&str, String)> = vec![
        ("open", "[".repeat(n - 10)),
        ("keys", (0..200_000).map(|i| format!("k{i}: 1\n")).collect()),
        ("hosts", format!("hosts:\n{}", (0..100_000).map(|i| format!("- n{i}\n")).collect::<String>())),
        ("ranges", format!("hosts:\n{}", "- n[1-10000]\n".repeat(100_000))),
        ("workers", format!("hosts: ['n[1-10000]']\nworkers:\n{}", "- n[1-10000]\n".repeat(100_000))),
        ("strangers", format!("hosts: ['n[1-10000]']\nworkers:\n{}", "- strangernode\n".repeat(100_000))),
        ("oneline", format!("{{{}}}", (0..150_000).map(|i| format!("k{i}: 1,")).collect::<String>())),
        ("json", format!("{{\"worker_nodes\": [{}\"a\"], \"server_nodes\": [\"b\"]}}", "\"10.0.0.1\",".repeat(150_000))),
        ("deepjson", format!("{{\"worker_nodes\": {}", "[".repeat(100_000))),
        ("jumps", format!("hosts:\n{}", (0..9_000).map(|i| format!("- {{name: n{i}, jump: n{}}}\n", i + 1)).collect::<String>())),
        ("longkey", format!("{}: 1", "x".repeat(n - 100))),
        ("groups", format!("hosts:\n- name: n[1-10000]\n  groups: [{}]\n", (0..200_000).map(|i| format!("g{i},")).collect::<String>())),
        ("quotes", "\"".repeat(n - 10)),
        ("colons", ": ".repeat(n / 2 - 10)),
        ("dashes", "- ".repeat(n / 2 - 10)),
    ];
    for (name, text) in cases {
        let t = Instant::now();
        let r = shoal_core::fleet::read("x.yaml", &text).map_err(|e| e.to_string().chars().take(150).collect::<String>());
        println!("{name}: {:?} {} {:?}", t.elapsed(), text.len(), r.as_ref().map(|r| r.fleet.hosts.len()));
    }
}
