use super::*;
use crate::queue::results::tests::row;

fn sample() -> Vec<ResultRow> {
    let mut rows = Vec::new();
    for (cell, (lr, width)) in
        [1e-4, 1e-3, 1e-2, 1e-1].into_iter().flat_map(|lr| [64, 256, 1024].map(|w| (lr, w))).enumerate()
    {
        for rep in 0..3 {
            let loss = 0.3 + 0.05 * (f64::log10(lr) + 2.5).powi(2) + 10.0 / f64::from(width) + 0.01 * f64::from(rep);
            let config = [
                ("lr", Value::Float(lr)),
                ("width", Value::Int(i64::from(width))),
                ("<opt>", Value::Text("a&b".into())),
            ];
            rows.push(row(
                u32::try_from(cell).expect("few"),
                rep,
                &config,
                &[("loss", &loss.to_string()), ("acc", "1")],
            ));
        }
    }
    rows
}

#[test]
fn a_line_for_each_setting_of_the_others() {
    let svg = plot(&sample(), &Choice::default()).expect("a picture");
    assert_eq!(svg.matches("<polyline").count(), 3);
    assert!(
        svg.contains("lr (log)") && svg.contains(">256<") && svg.contains(">width<") && svg.contains("loss over lr"),
        "{svg}"
    );
    assert!(svg.matches("<circle").count() >= 12);
    assert!(svg.contains(">0.0001<") && svg.contains(">0.1<"));
    let svg = plot(&sample(), &Choice { over: Some("width".into()), metric: Some("acc".into()) }).expect("a picture");
    assert_eq!(svg.matches("<polyline").count(), 4);
    assert!(!svg.contains("width (log)"), "16 times is no two decades");
    let svg = plot(&sample(), &Choice { over: Some("<opt>".into()), metric: None }).expect("a picture");
    assert!(svg.contains(">a&amp;b<") && svg.contains("&lt;opt&gt;") && !svg.contains("<opt>"));
}

#[test]
fn what_is_not_there_is_said() {
    for (over, metric, says) in [
        (Some("lrr"), None, "did you mean `lr`"),
        (None, Some("f1"), "there are loss, acc"),
        (Some("loss"), None, "no parameter `loss`"),
    ] {
        let choice = Choice { over: over.map(Into::into), metric: metric.map(Into::into) };
        assert!(plot(&sample(), &choice).is_err_and(|why| why.contains(says)), "{says}");
    }
    let text = [row(0, 0, &[("lr", Value::Int(1))], &[("note", "bad")])];
    assert!(plot(&text, &Choice::default()).is_err_and(|why| why.contains("as a number")));
    let single = [row(0, 0, &[("lr", Value::Int(1))], &[("loss", "1")])];
    assert!(plot(&single, &Choice::default()).is_ok(), "one point is a picture");
}
