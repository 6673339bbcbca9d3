//! Every codec compared with the reference's bytes, at every level of this machine.

mod compare;

use gguf_quant::Level;

#[test]
fn codecs_and_goldens_match_one_to_one() {
    assert_eq!(compare::unmatched(), Vec::<String>::new());
}

#[test]
fn bytes_and_values_match_reference() {
    let levels = Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    let outcomes = compare::compare_all(&levels);
    let differences: Vec<&str> = outcomes.iter().flat_map(|o| &o.differences).map(String::as_str).collect();
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    for outcome in &outcomes {
        let compared = outcome.n_plain_elems + outcome.n_weighted_elems;
        assert!(compared >= 1_000_000, "{}: only {compared} elements compared", outcome.name);
    }
}
