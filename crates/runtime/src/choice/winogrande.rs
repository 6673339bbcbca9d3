//! Winogrande: a sentence with a gap and two words for it, a line each:
//! `index,sentence with _,first,second,1 or 2`. The sentence may be in double quotes.
//!
//! The score is the mean log-likelihood of the text after the word if that is more than three
//! tokens for both, else of the word and the text after it, without the last token. If the word
//! counts, the reference takes the prediction after the entire first sentence for the first token
//! of the second one; so does this code, so that scores are equal.
//!
//! Source: `winogrande_score` and `load_winogrande_from_csv`.

use super::{Answer, Sequences, Tasks, check_finite, random::Mt19937};
use crate::{Error, Model};

/// If no more tokens than this follow the word, the word itself is scored too.
const LEAST_TRAILING: usize = 3;

/// Tasks of a Winogrande file.
pub struct Winogrande {
    tasks: Vec<Task>,
    n_passed_over: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    before: Vec<u8>,
    after: Vec<u8>,
    words: [Vec<u8>; 2],
    right: usize,
}

impl Winogrande {
    /// Reads a file and selects `n_tasks` of its tasks at random, or all if there are no more. Lines that are
    /// not tasks are skipped, and so is the text after the second-to-last line feed: the reference removes
    /// the line feed at the end of a file and reads only terminated lines.
    pub fn parse(bytes: &[u8], n_tasks: usize) -> Winogrande {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        lines.pop();
        let all: Vec<Task> = lines.iter().filter_map(|line| task(line)).collect();
        let n_passed_over = lines.len() - all.len();
        let selected = Mt19937::new(1).select(all.len(), n_tasks);
        Winogrande { tasks: selected.into_iter().map(|index| all[index].clone()).collect(), n_passed_over }
    }

    /// Lines that are not tasks.
    pub fn n_passed_over(&self) -> usize {
        self.n_passed_over
    }
}

fn task(line: &[u8]) -> Option<Task> {
    let mut is_quoted = false;
    let mut commas = Vec::new();
    // Commas inside double quotes do not separate fields; of more than four the reference takes the first ones.
    for (at, byte) in line.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted && commas.len() < 4 => commas.push(at),
            _ => {}
        }
    }
    let [a, b, c, d] = commas[..] else { return None };
    let sentence = &line[a + 1..b];
    let sentence = match sentence {
        [b'"', inner @ .., _] => inner,
        plain => plain,
    };
    let gap = sentence.iter().position(|byte| *byte == b'_')?;
    let answer = std::str::from_utf8(&line[d + 1..]).ok()?.trim_start();
    let digits = answer.len() - answer.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    // 1 or 2 in the file.
    let right = answer[..digits].parse::<usize>().ok().filter(|answer| (1..=2).contains(answer))?;
    Some(Task {
        before: sentence[..gap].to_vec(),
        after: sentence[gap + 1..].to_vec(),
        words: [line[b + 1..c].to_vec(), line[c + 1..d].to_vec()],
        right: right - 1,
    })
}

impl Tasks for Winogrande {
    fn n_tasks(&self) -> usize {
        self.tasks.len()
    }

    fn answer(&self, index: usize, model: &Model) -> Result<Answer, Error> {
        let task = &self.tasks[index];
        let texts = task.words.each_ref().map(|word| [&task.before[..], word, &task.after].concat());
        let sequences = Sequences::new(model.tokenizer(), &texts)?;
        let n_shared = sequences.n_shared;
        if n_shared == 0 || sequences.tokens.iter().any(|tokens| tokens.len() == n_shared) {
            return Err(Error::Task {
                task: index,
                problem: "the two sentences do not differ in exactly one option",
            });
        }
        let skips_word = sequences.tokens.iter().all(|tokens| tokens.len() - n_shared > LEAST_TRAILING);
        let logits = sequences.run(model)?;
        let mut scores = Vec::new();
        for (option, tokens) in sequences.tokens.iter().enumerate() {
            let start = if skips_word {
                let with_word = [&task.before[..], &task.words[option]].concat();
                let n_tokens = model.tokenizer().encode(with_word, true, false)?.len();
                // Where the word and what follows are one token there is nothing to leave out.
                n_tokens.clamp(n_shared, tokens.len() - 1)
            } else {
                n_shared
            };
            // The last token, mostly the full stop, is the same in both and is left out if anything else is scored.
            let end = if tokens.len() - start > 1 { tokens.len() - 1 } else { tokens.len() };
            let mut sum = 0.0f32;
            for (at, &token) in tokens.iter().enumerate().take(end).skip(start) {
                // A mistake of the reference: see the top of this file.
                let misplaced = option == 1 && at == n_shared;
                sum += if misplaced {
                    logits[0].log_prob(sequences.tokens[0].len() - 1, token)
                } else {
                    logits[option].log_prob(at - 1, token)
                };
            }
            scores.push(f64::from(sum / (end - start) as f32));
        }
        check_finite(&scores, index, model)?;
        // The second of two equal scores, like the reference.
        let chosen = usize::from(scores[0] <= scores[1]);
        let n_tokens = sequences.longest();
        Ok(Answer { scores, chosen, n_tokens, is_right: chosen == task.right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_tasks() {
        let file = b"0,Sarah was better than Maria so _ won.,Sarah,Maria,1\n\
            1,\"One, two and _ were there.\",three,four,2\nno task\n2,no gap,a,b,1\n3,a _ b,c,d,3\nlast\n";
        let parsed = Winogrande::parse(file, 9);
        assert_eq!((parsed.tasks.len(), parsed.n_passed_over()), (2, 3));
        let quoted = Task {
            before: b"One, two and ".to_vec(),
            after: b" were there.".to_vec(),
            words: [b"three".to_vec(), b"four".to_vec()],
            right: 1,
        };
        assert_eq!(parsed.tasks[1], quoted);
        assert_eq!(Winogrande::parse(file, 1).tasks.len(), 1);
    }
}
