//! Results of comparisons on the terminal and on the page.

use crate::common::{Sandbox, succeed, words};

#[test]
fn compare_with_page_prints_short_result() {
    let sandbox = Sandbox::with_converted("llama", "a.gguf", "f32");
    for name in ["q8_0", "q4_0"] {
        let output = format!("{name}.gguf");
        succeed(sandbox.quantize(&["a.gguf", &output, name, "-q"]));
    }
    sandbox.write("text.txt", "The quick brown fox jumps over the lazy dog. ".repeat(20));
    let args = words("compare a.gguf q8_0.gguf q4_0.gguf --text text.txt --chunks 2 -c 16 -q");
    let run = |more: &[&str]| succeed(sandbox.eval(&[&args[..], more].concat())).stdout;
    let plain = run(&[]);
    assert_eq!(run(&["--html", "page.html"]), plain);
    assert!(!plain.contains("blk.0.attn_q.weight"));
    // By size, under the names that differ.
    let table: Vec<&str> = plain.lines().skip_while(|line| !line.starts_with("file")).take(3).collect();
    assert!(table[0].contains("KL divergence"), "{plain}");
    assert!(table[1].starts_with("q4_0 ") && table[1].contains(" ± "), "{plain}");
    assert!(table[2].starts_with("q8_0 ") && table[2].contains(" %"), "{plain}");
    let page = sandbox.text("page.html");
    assert!(page.contains("blk.0.attn_q.weight") && page.contains(" ± "));
    let types = run(&["--html", "page.html", "--force", "--tensors"]);
    assert!(types.contains("\ndtype  tensors") && !types.contains("blk.0.attn_q.weight"), "{types}");
    let with_tensors = run(&["--tensors", "--full"]);
    assert!(with_tensors.contains("blk.0.attn_q.weight") && with_tensors.contains("KL divergence, mean"));
}
