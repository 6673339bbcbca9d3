//! CPU levels that a test must not leave out.

/// The environment variable that names CPU levels, with commas between (`avx2,avx512`), which this machine must have.
pub const REQUIRE_LEVELS: &str = "REQUIRE_LEVELS";

/// Checks that every level that [`REQUIRE_LEVELS`] names is among `available`. Tests that run once for each level
/// call it first, because without it a machine (or a detection) that lacks a level passes them in silence.
///
/// # Panics
/// When a named level is missing.
pub fn require_levels(available: &[&str]) {
    if let Ok(required) = std::env::var(REQUIRE_LEVELS) {
        let missing = missing(&required, available);
        assert!(missing.is_empty(), "{REQUIRE_LEVELS}={required}, but only {available:?} can run here");
    }
}

/// The names of a list with commas between that are not `available`.
fn missing<'a>(required: &'a str, available: &[&str]) -> Vec<&'a str> {
    let names = required.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.filter(|name| !available.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn absent_required_levels_are_reported() {
        assert_eq!(missing("", &["scalar"]), [""; 0]);
        assert_eq!(missing("avx2", &["scalar", "avx2"]), [""; 0]);
        assert_eq!(missing("avx2, avx512,avx3", &["scalar", "avx2"]), ["avx512", "avx3"]);
    }
}
