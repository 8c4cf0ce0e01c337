use super::plot::{self, plot};
use super::*;
use crate::queue::RunId;
use crate::queue::request::{ResultRow, SweepRow};
use crate::queue::sweep::Value;
use proptest::prelude::*;
use text::cells_of;

pub(super) fn row(cell: u32, rep: u32, config: &[(&str, Value)], metrics: &[(&str, &str)]) -> ResultRow {
    ResultRow {
        run: RunId { sweep: "mlp".into(), cell, rep },
        config: config.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
        seconds: 10.0 + f64::from(rep),
        host: "hebb".into(),
        metrics: metrics.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
        folder: None,
    }
}

fn sample() -> Vec<ResultRow> {
    let config =
        |lr: f64, width| [("dropout", Value::Float(0.1)), ("lr", Value::Float(lr)), ("width", Value::Int(width))];
    vec![
        row(1, 1, &config(0.01, 64), &[("loss", "0.30"), ("acc", "0.91")]),
        row(0, 0, &config(0.1, 64), &[("loss", "0.50"), ("acc", "0.80")]),
        row(1, 0, &config(0.01, 64), &[("loss", "0.32"), ("acc", "0.93")]),
        row(0, 1, &config(0.1, 64), &[("loss", "0.52")]),
        row(2, 0, &config(0.1, 256), &[("loss", "nan"), ("note", "diverged, \"badly\"")]),
    ]
}

fn made(rows: &[ResultRow], choice: &Choice) -> Table {
    table(rows, choice).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn copies_are_one_line() {
    let text = made(&sample(), &Choice::default()).text(100);
    let expected = "\
cell   lr    width  n         loss          acc               note      seconds
mlp:0  0.1   64     2  0.51 ± 0.13          0.8                  -  10.5 ± 6.4
mlp:1  0.01  64     2  0.31 ± 0.13  0.92 ± 0.13                  -  10.5 ± 6.4
mlp:2  0.1   256    1          nan            -  diverged, \"badly\"           10
";
    let squeezed = |text: &str| -> Vec<Vec<String>> {
        text.lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(String::from).collect())
            .collect()
    };
    assert_eq!(squeezed(&text), squeezed(expected), "{text}");
    let widths: std::collections::BTreeSet<usize> = text.lines().map(|line| line.find("  ").unwrap_or(0)).collect();
    assert!(widths.len() <= 2, "{text}");
}

/// `0.3...` is no number.
#[test]
fn numbers_are_whole_or_left_out() {
    let choice =
        Choice { columns: ["cell", "lr", "loss", "acc", "seconds"].map(String::from).into(), ..Choice::default() };
    let text = made(&sample(), &choice).text(40);
    assert!(text.contains("0.51 ± 0.13") && text.contains("0.92 ± 0.13"), "{text}");
    assert!(!text.contains("..."), "{text}");
    assert_eq!(text.lines().last(), Some("not shown: seconds"));
}

#[test]
fn columns_are_chosen_and_lines_sorted() {
    let sorted = |sort: &str, runs| {
        let choice = Choice {
            sort: Some(sort.into()),
            runs,
            columns: vec![if runs { "run" } else { "cell" }.into()],
            ..Choice::default()
        };
        made(&sample(), &choice).text(80).split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sorted("loss", false), "mlp:1 mlp:0 mlp:2");
    assert_eq!(sorted("-loss", false), "mlp:0 mlp:1 mlp:2", "what is no number comes last either way");
    assert_eq!(sorted("-width", false), "mlp:2 mlp:0 mlp:1");
    assert_eq!(sorted("-acc", true), "mlp:1.0 mlp:1.1 mlp:0.0 mlp:0.1 mlp:2.0");
    for (name, says) in
        [("los", "did you mean `loss`"), ("f1", "there are cell, lr, width"), ("-los", "did you mean `loss`")]
    {
        let why = table(&sample(), &Choice { sort: Some(name.into()), ..Choice::default() }).expect_err(name);
        assert!(why.contains(says), "{why}");
        if !name.starts_with('-') {
            assert!(table(&sample(), &Choice { columns: vec![name.into()], ..Choice::default() }).is_err());
        }
    }
    let same =
        [row(0, 0, &[("lr", Value::Int(1))], &[("lr", "2")]), row(1, 0, &[("lr", Value::Int(2))], &[("n", "2")])];
    let names: Vec<String> = made(&same, &Choice::default()).columns.into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["cell", "param.lr", "n", "metric.lr", "metric.n", "seconds"], "no two columns have one name");
}

#[test]
fn csv_is_that_of_the_rfc() {
    let csv = made(&sample(), &Choice { runs: true, all_parameters: true, ..Choice::default() }).csv();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines[0], "run,dropout,lr,width,loss,acc,note,seconds,host,folder");
    assert_eq!(lines[1], "mlp:0.0,0.1,0.1,64,0.5,0.8,,10,hebb,");
    assert_eq!(lines[5], "mlp:2.0,0.1,0.1,256,nan,,\"diverged, \"\"badly\"\"\",10,hebb,");
    assert_eq!(lines[6..], [""]);
    let grouped = made(&sample(), &Choice { columns: vec!["cell".into(), "loss".into()], ..Choice::default() }).csv();
    assert!(grouped.starts_with("cell,loss,loss_ci95\r\nmlp:0,0.51,0.127"), "{grouped}");
}

#[test]
fn json_keeps_parameters_and_metrics_apart() {
    let json = made(&sample(), &Choice { runs: true, all_parameters: true, ..Choice::default() }).json();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(5));
    assert_eq!(json["runs"][0]["params"], serde_json::json!({"dropout": 0.1, "lr": 0.1, "width": 64}));
    assert_eq!(json["runs"][0]["metrics"]["loss"], 0.5);
    assert_eq!(json["runs"][4]["metrics"]["loss"], serde_json::Value::Null, "JSON has no word for it");
    let cells: serde_json::Value = serde_json::from_str(&made(&sample(), &Choice::default()).json()).expect("JSON");
    assert_eq!(cells["cells"][1]["metrics"]["acc"]["n"], 2);
}

#[test]
fn nothing_finished_is_a_table_too() {
    for runs in [true, false] {
        let table = made(&[], &Choice { runs, ..Choice::default() });
        assert_eq!(table.text(80).lines().count(), 1);
        assert_eq!(table.csv().matches("\r\n").count(), 1);
    }
    assert!(plot(&[], &plot::Choice::default()).is_err());
}

#[test]
fn waiting_is_one_line() {
    let row = SweepRow {
        name: "mlp".into(),
        owner: "ada".into(),
        submitted: 0,
        cells: 50,
        reps: 2,
        waiting: 43,
        running: 4,
        finished: 52,
        failed: 1,
        stopped: 0,
        priority: 0,
        paused: false,
        done_at: Some(180_000),
        stuck: None,
    };
    let bar = "=".repeat(15) + "--" + &" ".repeat(13);
    assert_eq!(progress(&row, 60_000, 100), format!("mlp  [{bar}]  52/100 done, 4 running, 1 failed, 2 min left"));
    assert_eq!(progress(&row, 60_000, 30), "mlp  52/100 done, 4 running...");
    assert_eq!(
        progress(&SweepRow { waiting: 0, running: 0, failed: 0, finished: 0, ..row.clone() }, 0, 80)
            .matches('=')
            .count(),
        0
    );
    let paused = SweepRow { paused: true, ..row.clone() };
    assert!(progress(&paused, 0, 100).ends_with("paused"));
    let stuck = SweepRow { stuck: Some("5 different runs failed".into()), ..row };
    assert!(progress(&stuck, 0, 200).ends_with("nothing starts: 5 different runs failed"));
    for (ms, text) in
        [(0, "0 s"), (59_000, "59 s"), (60_000, "1 min"), (7_800_000, "2 h 10 min"), (277_200_000, "3 d 5 h")]
    {
        assert_eq!(progress::left(ms), text);
    }
}

fn rows() -> impl Strategy<Value = Vec<ResultRow>> {
    let value = prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        "\\PC{0,30}".prop_map(Value::Text),
        Just(Value::Null)
    ];
    let config = proptest::collection::btree_map("[a-z]{1,12}", value, 0..8);
    let metrics = proptest::collection::btree_map(
        "\\PC{1,20}",
        prop_oneof!["-?[0-9]{1,4}\\.[0-9]{1,6}(e-?[0-9]{1,3})?", "\\PC{0,9}"],
        0..6,
    );
    let one = (0u32..4, 0u32..3, config, metrics).prop_map(|(cell, rep, config, metrics)| ResultRow {
        config: config.into_iter().collect(),
        metrics: metrics.into_iter().collect(),
        ..row(cell, rep, &[], &[])
    });
    proptest::collection::vec(one, 0..12)
}

proptest! {
    #[test]
    fn no_line_is_too_wide(rows in rows(), width in 20usize..120, runs in any::<bool>()) {
        let table = made(&rows, &Choice { runs, all_parameters: true, ..Choice::default() });
        for line in table.text(width).lines() {
            prop_assert!(cells_of(line) <= width, "{} > {width}: {line}", cells_of(line));
        }
        let fields = table.csv();
        prop_assert!(fields.ends_with("\r\n"));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&table.json()).is_ok());
    }

    #[test]
    fn every_picture_is_whole(rows in rows()) {
        if let Ok(svg) = plot(&rows, &plot::Choice::default()) {
            prop_assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
            prop_assert!(!svg.contains("NaN") && !svg.contains("\"inf"), "{svg}");
        }
    }
}
