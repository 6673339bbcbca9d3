//! Compares every codec with the goldens and prints how many elements were actually compared.

#[path = "../tests/all/golden/compare.rs"]
mod compare;

use gguf_quant::{LEVEL_NAMES, Level};

fn main() -> std::process::ExitCode {
    let levels = Level::available();
    let not_run: Vec<&&str> = LEVEL_NAMES.iter().filter(|name| Level::from_name(name).is_none()).collect();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    println!("levels run: {levels:?}, not on this machine: {not_run:?}\n");
    println!(
        "{:<8} {:>6} {:>12} {:>13} {:>12}  result",
        "type", "cases", "unweighted", "weighted", "decoded"
    );
    let outcomes = compare::compare_all(&levels);
    for outcome in &outcomes {
        println!(
            "{:<8} {:>6} {:>12} {:>13} {:>12}  {}",
            outcome.name,
            outcome.n_cases,
            outcome.n_plain_elems,
            outcome.n_weighted_elems,
            outcome.n_decoded_elems,
            match outcome.differences.len() {
                0 if outcome.n_cases == 0 => "no golden".to_owned(),
                0 => "equal".to_owned(),
                n => format!("{n} differences"),
            }
        );
    }
    let mut failed = false;
    for line in outcomes.iter().flat_map(|outcome| &outcome.differences).chain(&compare::unmatched()) {
        eprintln!("{line}");
        failed = true;
    }
    std::process::ExitCode::from(u8::from(failed))
}
