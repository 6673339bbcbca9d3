//! Spends the remaining budget by exchanging offers.

use super::Item;

/// Upper bound on the number of exchanges. Each lowers the cost, and few are found in practice.
const MOST_ROUNDS: usize = 10_000;

/// A change of one item's offer.
#[derive(Clone, Copy)]
struct Change {
    item: usize,
    to: usize,
    /// Additional bytes; negative if it frees some.
    bytes: i128,
    /// Change of the cost; negative is better.
    cost: f64,
}

/// Changes one item, or two together, while that lowers the cost within the budget; each time the change that
/// lowers it most.
pub(super) fn fill(items: &[Item], picks: &mut [usize], budget: u64) {
    for _ in 0..MOST_ROUNDS {
        let used: i128 =
            items.iter().zip(&*picks).map(|(item, pick)| i128::from(item.offers[*pick].n_bytes)).sum();
        match best(&changes(items, picks), i128::from(budget) - used) {
            [None, _] => return,
            found => found.into_iter().flatten().for_each(|change| picks[change.item] = change.to),
        }
    }
}

/// Every change of a single item.
fn changes(items: &[Item], picks: &[usize]) -> Vec<Change> {
    let item_changes = |(item, (of, pick)): (usize, (&Item, &usize))| {
        let now = of.offers[*pick];
        let change = move |(to, offer): (usize, &super::Offer)| Change {
            item,
            to,
            bytes: i128::from(offer.n_bytes) - i128::from(now.n_bytes),
            cost: offer.cost - now.cost,
        };
        let alternatives = of.offers.iter().enumerate().filter(|(to, _)| to != pick);
        alternatives.map(change).collect::<Vec<_>>()
    };
    items.iter().zip(picks).enumerate().flat_map(item_changes).collect()
}

/// The single change, or pair of changes to different items, that lowers the cost most and fits into `room`.
fn best(changes: &[Change], room: i128) -> [Option<Change>; 2] {
    // Sorted by bytes, so that the partners that fit form a prefix.
    let mut by_bytes: Vec<&Change> = changes.iter().filter(|change| change.cost < 0.0).collect();
    by_bytes.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.item.cmp(&b.item)).then(a.to.cmp(&b.to)));
    // For each prefix, the two best changes of different items.
    let mut leaders: Vec<[Option<&Change>; 2]> = Vec::with_capacity(by_bytes.len());
    let (mut first, mut second): (Option<&Change>, Option<&Change>) = (None, None);
    for change in &by_bytes {
        let is_lower = |than: Option<&Change>| than.is_none_or(|than| change.cost < than.cost);
        if is_lower(first) {
            if first.is_some_and(|first| first.item != change.item) {
                second = first;
            }
            first = Some(change);
        } else if first.is_some_and(|first| first.item != change.item) && is_lower(second) {
            second = Some(change);
        }
        leaders.push([first, second]);
    }
    let leader = |room: i128, not_of: Option<usize>| {
        let n_fitting = by_bytes.partition_point(|change| change.bytes <= room);
        let [first, second] = *leaders.get(n_fitting.checked_sub(1)?)?;
        first.filter(|first| Some(first.item) != not_of).or(second)
    };
    let (mut found, mut lowest): ([Option<Change>; 2], f64) = ([None, None], -1e-15);
    if let Some(change) = leader(room, None).filter(|change| change.cost < lowest) {
        (found, lowest) = ([Some(*change), None], change.cost);
    }
    for change in changes {
        let Some(partner) = leader(room - change.bytes, Some(change.item)) else { continue };
        if change.cost + partner.cost < lowest {
            (found, lowest) = ([Some(*change), Some(*partner)], change.cost + partner.cost);
        }
    }
    found
}
