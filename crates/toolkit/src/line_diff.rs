//! Two texts line by line, as `diff -u` shows them.

use crate::text::printable;

/// Lines around a change that are shown.
const CONTEXT: usize = 3;

/// Maximum number of pairs of lines that are compared. Longer texts are shown as one change.
const MOST_PAIRS: usize = 16 << 20;

/// Edit of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// In both texts.
    Both,
    /// Removed.
    OnlyA,
    /// Added.
    OnlyB,
}

/// Returns the changes from `a` to `b` with context lines, each after its sign and two spaces.
pub fn unified(a: &str, b: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split('\n').collect(), b.split('\n').collect());
    let steps = steps(&a, &b);
    let is_near = |at: usize| {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(steps.len());
        steps[around].iter().any(|step| *step != Step::Both)
    };
    let (mut text, mut in_a, mut in_b, mut was_near) = (String::new(), 0, 0, false);
    for (at, step) in steps.iter().enumerate() {
        let near = is_near(at);
        if near && !was_near {
            text += &format!("  @@ line {} of A, line {} of B @@\n", in_a + 1, in_b + 1);
        }
        was_near = near;
        let (sign, line) = match step {
            Step::Both => (' ', a[in_a]),
            Step::OnlyA => ('-', a[in_a]),
            Step::OnlyB => ('+', b[in_b]),
        };
        if near {
            text += &format!("  {sign}{}\n", printable(line));
        }
        in_a += usize::from(*step != Step::OnlyB);
        in_b += usize::from(*step != Step::OnlyA);
    }
    text
}

/// The fewest removed and added lines, by the longest common subsequence of the lines between the equal ends.
pub fn steps(a: &[&str], b: &[&str]) -> Vec<Step> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    let mut steps = vec![Step::Both; start];
    if a.len().saturating_mul(b.len()) > MOST_PAIRS {
        steps.extend(a.iter().map(|_| Step::OnlyA));
        steps.extend(b.iter().map(|_| Step::OnlyB));
    } else {
        // common[i][j]: lines that a[i..] and b[j..] have in common, in order.
        let width = b.len() + 1;
        let mut common = vec![0u32; (a.len() + 1) * width];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                common[i * width + j] = if a[i] == b[j] {
                    common[(i + 1) * width + j + 1] + 1
                } else {
                    common[(i + 1) * width + j].max(common[i * width + j + 1])
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            let step = match (a.get(i), b.get(j)) {
                (Some(a), Some(b)) if a == b => Step::Both,
                (Some(_), Some(_)) if common[(i + 1) * width + j] >= common[i * width + j + 1] => Step::OnlyA,
                (Some(_), None) => Step::OnlyA,
                _ => Step::OnlyB,
            };
            i += usize::from(step != Step::OnlyB);
            j += usize::from(step != Step::OnlyA);
            steps.push(step);
        }
    }
    steps.extend(std::iter::repeat_n(Step::Both, end));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_context() {
        let a = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10";
        let b = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11";
        let expected = "  @@ line 2 of A, line 2 of B @@\n   2\n   3\n   4\n  -5\n  +five\n   6\n   7\n   8\n   9\n   10\n  +11\n";
        assert_eq!(unified(a, b), expected);
        assert_eq!(unified(a, a), "");
        assert_eq!(unified("x\ny", "y\nx"), "  @@ line 1 of A, line 1 of B @@\n  -x\n   y\n  +x\n");
    }

    #[test]
    fn steps_turn_first_text_into_second() {
        let texts = ["", "a", "a\nb\nc", "c\nb\na", "a\nx\nb\nc\nc", "b\nb\nb"];
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            let (lines_a, lines_b): (Vec<&str>, Vec<&str>) =
                (a.split('\n').collect(), b.split('\n').collect());
            let (mut i, mut j) = (0, 0);
            for step in steps(&lines_a, &lines_b) {
                assert!(step != Step::Both || lines_a[i] == lines_b[j], "{a:?} {b:?}");
                i += usize::from(step != Step::OnlyB);
                j += usize::from(step != Step::OnlyA);
            }
            assert_eq!((i, j), (lines_a.len(), lines_b.len()), "{a:?} {b:?}");
        }
    }
}
