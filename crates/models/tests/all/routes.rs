//! Tokenizer routes that the architectures use.

use std::collections::BTreeSet;

use gguf_tokenizer::huggingface::Route;

/// A route without an architecture names the missing one, and only such a route does. Adding the architecture
/// requires removing the remark, and removing the last one requires adding it.
#[test]
fn unreachable_routes_state_a_reason() {
    let reached: Vec<Route> = gguf_models::ARCHES.iter().map(|arch| arch.vocab).collect();
    let unreached: BTreeSet<&str> =
        Route::all().filter(|(_, route)| !reached.contains(route)).map(|(name, _)| name).collect();
    let waiting: BTreeSet<&str> =
        Route::all().filter(|(_, route)| route.waits_for().is_some()).map(|(name, _)| name).collect();
    assert_eq!(unreached, waiting);
}

#[test]
fn names_select_routes() {
    for (name, route) in Route::all() {
        assert_eq!(Route::named(name), Some(route), "{name}");
    }
    assert_eq!(Route::named("martian"), None);
}
