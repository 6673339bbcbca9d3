//! Compares choices with exhaustive search.

use super::*;

fn item(name: &str, offers: &[(u64, f64)]) -> Item {
    let offer = |(n_bytes, cost): &(u64, f64)| Offer { dtype: DType::Q4_K, n_bytes: *n_bytes, cost: *cost };
    Item { name: name.to_owned(), offers: offers.iter().map(offer).collect() }
}

/// Lowest cost of all choices within the budget.
fn least(items: &[Item], budget: u64) -> Option<f64> {
    let Some((first, rest)) = items.split_first() else { return Some(0.0) };
    let with = |offer: &Offer| Some(offer.cost + least(rest, budget.checked_sub(offer.n_bytes)?)?);
    first.offers.iter().filter_map(with).min_by(f64::total_cmp)
}

/// Items with seeded sizes and costs that fall with size.
fn seeded(seed: u32, n_items: usize) -> Vec<Item> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from(state >> 16)
    };
    let of = |index: usize, next: &mut dyn FnMut() -> u64| {
        let (size, weight) = (next() % 900 + 100, (next() % 1000 + 1) as f64 / 500.0);
        let offers: Vec<(u64, f64)> =
            (2..7).map(|bits| (size * bits + next() % 50, weight * 3.75f64.powi(-(bits as i32)))).collect();
        item(&format!("t{index}"), &offers)
    };
    (0..n_items).map(|index| of(index, &mut next)).collect()
}

#[test]
fn choices_are_near_optimal_within_budget() {
    let mut ratios = Vec::new();
    for seed in 0..40 {
        let items = seeded(seed, 6);
        let bounds = |pick: fn(std::slice::Iter<'_, Offer>) -> Option<u64>| {
            items.iter().filter_map(|item| pick(item.offers.iter())).sum::<u64>()
        };
        let smallest = bounds(|offers| offers.map(|offer| offer.n_bytes).min());
        let largest = bounds(|offers| offers.map(|offer| offer.n_bytes).max());
        for share in [0, 10, 35, 60, 100] {
            let budget = smallest + (largest - smallest) * share / 100;
            let chosen = choose(&items, budget).unwrap();
            assert!(chosen.n_bytes <= budget, "seed {seed}, {share} %");
            ratios.push(chosen.cost / least(&items, budget).unwrap());
        }
    }
    // With six matrices, exchanges are limited: one table in two hundred is off by a quarter, most are
    // optimal.
    let worst = ratios.iter().copied().fold(1.0, f64::max);
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!(worst < 1.25 && mean < 1.01, "{worst} {mean}");
}

#[test]
fn budget_is_filled_to_a_thousandth() {
    for seed in 0..10 {
        let items = seeded(seed, 60);
        let smallest: u64 =
            items.iter().map(|item| item.offers.iter().map(|offer| offer.n_bytes).min().unwrap()).sum();
        let budget = smallest * 17 / 10;
        let chosen = choose(&items, budget).unwrap();
        assert!(chosen.n_bytes <= budget && chosen.n_bytes >= budget - budget / 1000, "seed {seed}");
        assert_eq!(choose(&items, budget).unwrap(), chosen);
    }
}

#[test]
fn dominated_offers_change_nothing() {
    // Dominated, and above the line between its neighbors.
    let items =
        [item("a", &[(10, 4.0), (15, 5.0), (20, 3.9), (30, 1.0)]), item("b", &[(10, 4.0), (40, 3.9)])];
    assert_eq!(hull(&items[0].offers), [0, 3]);
    assert_eq!(choose(&items, 40).unwrap().picks, [3, 0]);
    // Off the hull, but the best that fits.
    assert_eq!(choose(&items, 31).unwrap().picks, [2, 0]);
}

#[test]
fn impossible_budgets_are_refused() {
    let items = [item("a", &[(10, 1.0), (20, 0.5)])];
    assert_eq!(choose(&items, 9), Err(BudgetError::TooSmall { least: 10, budget: 9 }));
    assert_eq!(choose(&items, 10).unwrap().picks, [0]);
    assert_eq!(choose(&[item("a", &[])], 9), Err(BudgetError::NoOffer { name: "a".to_owned() }));
    assert!(matches!(choose(&[item("a", &[(1, f64::NAN)])], 9), Err(BudgetError::NotFinite { .. })));
    assert_eq!(choose(&[], 0).unwrap(), Chosen { picks: Vec::new(), n_bytes: 0, cost: 0.0 });
}

#[test]
fn predictions_match_hand_computed() {
    // Twice the error is twice the divergence. Without errors, the measured value is returned.
    assert_eq!(predicted(0.5, 4.0, 2.0), 1.0);
    assert_eq!(predicted(0.5, 1.0, 0.0), 0.5);
    assert_eq!(predicted(0.5, f64::NAN, 1.0), 0.5);
    assert_eq!(predicted(-1e-9, 3.0, 1.0), 0.0);
}
