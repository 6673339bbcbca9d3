//! CPU levels that a test must not skip.

/// Environment variable with a comma-separated list of CPU levels (`avx2,avx512`) that this machine must
/// have.
pub const REQUIRE_LEVELS: &str = "REQUIRE_LEVELS";

/// Checks that every level in [`REQUIRE_LEVELS`] is `available`. Tests that run once per level call it first,
/// because otherwise a machine (or a detection) without a level passes them silently.
///
/// # Panics
/// If a required level is missing.
pub fn require_levels(available: &[&str]) {
    if let Ok(required) = std::env::var(REQUIRE_LEVELS) {
        let missing = missing(&required, available);
        assert!(missing.is_empty(), "{REQUIRE_LEVELS}={required}, but only {available:?} can run here");
    }
}

/// Names of a comma-separated list that are not `available`.
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
