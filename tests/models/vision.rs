//! Projectors of tiny checkpoints: image features, and predictions after the image, compared with
//! transformers; invalid images and files; `gguf-eval generate --mmproj --image`.

use std::fs;

use serde_json::Value;

use super::logits::read_values;
use crate::common::{Output, Sandbox, golden, largest_difference, succeed};
use gguf_runtime::{
    Error, Model, Options, Piece, Session,
    vision::{Picture, Projector, TileEmbedding},
};

/// The largest difference of a picture's rows, as a part of their range.
const ALLOWED_OF_ROWS: f32 = 2e-5;

/// The same of logits.
const ALLOWED_OF_LOGITS: f32 = 2e-4;

/// Contents of `golden/vision/NAME/features.bin`.
struct Expected {
    n_embd: usize,
    range: f32,
    rows: Vec<f32>,
    deep: Vec<Vec<f32>>,
    max_tokens: Option<usize>,
    /// Copies of the picture: columns and rows.
    repeat: (usize, usize),
    tiles: Vec<Tile>,
    before: Vec<u32>,
    after: Vec<u32>,
    positions: Vec<usize>,
    n_vocab: usize,
    logits_range: f32,
    /// (positions, n_vocab).
    logits: Vec<f32>,
}

/// A tile of a picture. The last one has no rows, only the text after the tiles.
struct Tile {
    /// Text before its rows, without the marks of the family.
    text: String,
    /// Tokens that replace the text in this test.
    ids: Vec<u32>,
    n_rows: usize,
}

fn expected(name: &str) -> Expected {
    let (head, mut values) = read_values(&golden("vision").join(name).join("features.bin"));
    let number = |key: &str| head[key].as_u64().map(|n| n as usize);
    let list = |key: &str| -> Vec<u64> {
        head[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    };
    let tokens = |key: &str| list(key).into_iter().map(|id| id as u32).collect();
    let ids = |ids: &Value| ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let text = |text: &Value| text.as_str().unwrap().to_owned();
    let (n_embd, n_rows) = (number("n_embd").unwrap(), number("n_rows").unwrap());
    let tiles = match head["tiles"].as_array() {
        None => {
            let end = Tile { text: String::new(), ids: Vec::new(), n_rows: 0 };
            vec![Tile { text: String::new(), ids: Vec::new(), n_rows }, end]
        }
        Some(tiles) => {
            let tile = |tile: &Value| Tile {
                text: text(&tile["text"]),
                ids: ids(&tile["ids"]),
                n_rows: tile["n_rows"].as_u64().unwrap() as usize,
            };
            let end = Tile { text: text(&head["text_after"]), ids: ids(&head["ids_after"]), n_rows: 0 };
            tiles.iter().map(tile).chain([end]).collect()
        }
    };
    let repeat = head["repeat"].as_array().map_or((1, 1), |sides| {
        let side = |i: usize| sides[i].as_u64().unwrap() as usize;
        (side(0), side(1))
    });
    let mut take = |n: usize| values.drain(..n).collect::<Vec<f32>>();
    let rows = take(n_rows * n_embd);
    let deep = (0..number("n_deep").unwrap()).map(|_| take(n_rows * n_embd)).collect();
    Expected {
        n_embd,
        range: head["range"].as_f64().unwrap() as f32,
        rows,
        deep,
        max_tokens: number("max_tokens"),
        repeat,
        tiles,
        before: tokens("before"),
        after: tokens("after"),
        positions: list("positions").into_iter().map(|position| position as usize).collect(),
        n_vocab: number("n_vocab").unwrap(),
        logits_range: head["logits_range"].as_f64().unwrap() as f32,
        logits: values,
    }
}

fn options() -> Options {
    Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) }
}

fn picture() -> Picture {
    Picture::read(&fs::read(golden("vision/picture.png")).unwrap()).unwrap()
}

/// The picture, repeated in a grid of columns and rows.
fn repeated((columns, rows): (usize, usize)) -> Picture {
    let one = picture();
    let lines = one.pixels().chunks(3 * one.width()).map(|line| line.repeat(columns));
    let line = lines.collect::<Vec<_>>().concat();
    Picture::new(columns * one.width(), rows * one.height(), line.repeat(rows)).unwrap()
}

/// `model.gguf` and `mmproj.gguf` of a checkpoint.
fn converted(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_vision(name);
    for args in [&["model.gguf", "--pre", "llama-bpe"][..], &["mmproj.gguf", "--mmproj"]] {
        let ran = sandbox.convert(&[&[name], args, &["-t", "f32", "-q"]].concat());
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
    }
    sandbox
}

/// Compares rows of tiles and the texts around them.
fn assert_texts(name: &str, expected: &[Tile], made: &[TileEmbedding]) {
    let mut texts = vec![String::new()];
    for tile in made {
        *texts.last_mut().unwrap() += &tile.before;
        texts.push(tile.after.clone());
    }
    let expected_texts: Vec<&String> = expected.iter().map(|tile| &tile.text).collect();
    assert_eq!(texts.iter().collect::<Vec<_>>(), expected_texts, "{name}");
    for (tile, made) in expected.iter().zip(made) {
        assert_eq!(made.embedding.n_rows(), tile.n_rows, "{name}");
    }
}

#[test]
fn image_features_match_transformers() {
    let mut wrong = String::new();
    for name in gguf_testkit::vision_names() {
        let sandbox = converted(&name);
        let projector = Projector::open(&sandbox.path("mmproj.gguf"), &options()).unwrap();
        let expected = expected(&name);
        assert_eq!(projector.n_embd(), expected.n_embd);
        let made = projector.embed(&repeated(expected.repeat), expected.max_tokens).unwrap();
        assert_texts(&name, &expected.tiles, &made);
        let deep: Vec<&[f32]> = made.iter().flat_map(|tile| tile.embedding.deep()).collect();
        let rows: Vec<&[f32]> = made.iter().map(|tile| tile.embedding.rows()).collect();
        let rows = rows.concat();
        assert_eq!((rows.len(), deep.len()), (expected.rows.len(), expected.deep.len()), "{name}");
        let pairs = expected.deep.iter().map(Vec::as_slice).zip(deep);
        let pairs = pairs.chain([(&expected.rows[..], &rows[..])]);
        let worst = pairs.map(|(want, found)| largest_difference(want, found)).fold(0.0, f32::max);
        println!("{name}: {:.1e}", worst / expected.range);
        if worst > ALLOWED_OF_ROWS * expected.range {
            wrong += &format!("{name}: {:.1e} of the range\n", worst / expected.range);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn predictions_after_image_match_transformers() {
    let (mut wrong, mut n) = (String::new(), 0);
    for name in gguf_testkit::vision_names() {
        let expected = expected(&name);
        if expected.positions.is_empty() {
            println!("{name}: no text model is compared");
            continue;
        }
        let sandbox = converted(&name);
        let model = Model::open(&sandbox.path("model.gguf"), &options()).unwrap();
        let projector = Projector::open(&sandbox.path("mmproj.gguf"), &options()).unwrap();
        projector.check_fits(&model).unwrap();
        let made = projector.embed(&repeated(expected.repeat), expected.max_tokens).unwrap();
        // Tokens before each tile and after the last, and tiles.
        let mut pieces = vec![Piece::Tokens(&expected.before)];
        for (i, tile) in expected.tiles.iter().enumerate() {
            pieces.push(Piece::Tokens(&tile.ids));
            pieces.extend(made.get(i).map(|made| Piece::Picture(&made.embedding)));
        }
        pieces.push(Piece::Tokens(&expected.after));
        let pieces: Vec<Piece<'_>> = pieces.into_iter().filter(|piece| piece.n_rows() > 0).collect();
        let n_rows: usize = pieces.iter().map(Piece::n_rows).sum();
        let hidden = model.read(&mut Session::new(), &pieces, 0..n_rows).unwrap();
        let mut logits = vec![0.0; n_rows * model.n_vocab()];
        model.logits(&hidden, 0..n_rows, None, &mut logits).unwrap();
        let row = |position: usize| &logits[position * model.n_vocab()..][..expected.n_vocab];
        let rows = expected.positions.iter().zip(expected.logits.chunks(expected.n_vocab));
        let worst = rows.map(|(position, want)| largest_difference(want, row(*position))).fold(0.0, f32::max);
        println!("{name}: {:.1e}", worst / expected.logits_range);
        if worst > ALLOWED_OF_LOGITS * expected.logits_range {
            wrong += &format!("{name}: {:.1e} of the range\n", worst / expected.logits_range);
        }

        // Like this, with one call for each piece, and one for each token after the image.
        let mut session = Session::new();
        let start = n_rows - expected.after.len();
        for i in 0..pieces.len() - 1 {
            model.read(&mut session, &pieces[i..=i], 0..0).unwrap();
        }
        for (i, token) in expected.after.iter().enumerate() {
            let hidden = model.continue_with(&mut session, &[*token]).unwrap();
            let mut alone = vec![0.0; model.n_vocab()];
            model.logits(&hidden, 0..1, None, &mut alone).unwrap();
            let differs = largest_difference(row(start + i), &alone[..expected.n_vocab]);
            assert!(differs < ALLOWED_OF_LOGITS * expected.logits_range, "{name}, token {i}: {differs}");
        }
        n += 1;
    }
    assert!(wrong.is_empty() && n > 24, "{wrong}");
}

#[test]
fn every_projector_opens_or_is_named() {
    let (sandbox, mut n) = (Sandbox::new(), 0);
    for name in gguf_testkit::projector_names() {
        let folder = gguf_testkit::projector(&name);
        let file = format!("{name}.gguf");
        let ran = sandbox.convert(&[folder.to_str().unwrap(), &file, "--mmproj", "-t", "f16", "-q"]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        match Projector::open(&sandbox.path(&file), &options()) {
            Ok(projector) if projector.check_vision().is_ok() => {
                let tiles = projector.embed(&picture(), Some(1)).unwrap();
                assert!(tiles.iter().all(|tile| tile.embedding.n_rows() > 0), "{name}");
                n += 1;
            }
            // An audio encoder alone.
            Ok(projector) => projector.check_audio().unwrap(),
            Err(Error::UnknownProjector { .. } | Error::NoVisionTower) => (),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert!(n > 30, "{n} projectors");
}

#[test]
fn picture_pixels_match_pillow() {
    let read = |name: &str| fs::read(golden("vision").join(name)).unwrap();
    assert_eq!(picture().pixels(), read("picture.rgb"));
    // Readers of JPEG round differently; more so where chroma is sampled down.
    for (name, allowed) in [("picture.jpg", 2), ("picture-420.jpg", 5)] {
        let (jpeg, expected) = (Picture::read(&read(name)).unwrap(), read(&format!("{name}.rgb")));
        assert_eq!((jpeg.width(), jpeg.height()), (45, 30));
        let differences = jpeg.pixels().iter().zip(&expected).map(|(a, b)| a.abs_diff(*b));
        let worst = differences.max().unwrap();
        println!("{name}: {worst}");
        assert!(worst <= allowed, "{name}: {worst}");
    }
}

#[test]
fn invalid_pictures_are_refused() {
    for name in ["picture.png", "picture.jpg"] {
        let good = fs::read(golden("vision").join(name)).unwrap();
        for n in [20, good.len() / 2, good.len() - 60] {
            let error = Picture::read(&good[..n]).unwrap_err();
            assert!(matches!(error, Error::BrokenPicture { .. }), "{name}, {n} bytes: {error}");
        }
    }
    let good = ["picture.png", "picture.jpg"].map(|name| fs::read(golden("vision").join(name)).unwrap());
    gguf_testkit::mutants(600, |draw| {
        let mut bytes = draw.of(&good).clone();
        gguf_testkit::mutate(&mut bytes, draw);
        Picture::read(&bytes).is_ok()
    });
    // A header that claims more than anyone reads: 65535 x 65535 pixels.
    let mut png = fs::read(golden("vision/picture.png")).unwrap();
    png[16..24].copy_from_slice(&[0, 0, 255, 255, 0, 0, 255, 255]);
    let error = Picture::read(&png).unwrap_err();
    assert!(matches!(error, Error::PictureSize { .. } | Error::BrokenPicture { .. }), "{error}");
    assert!(matches!(Picture::read(b"GIF89a").unwrap_err(), Error::NotAPicture));
    assert!(matches!(Picture::read(b"").unwrap_err(), Error::NotAPicture));
}

fn generate(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.eval(&[&["generate"], args].concat())
}

#[test]
fn model_generates_about_a_picture() {
    let sandbox = converted("pixtral");
    fs::copy(golden("vision/picture.png"), sandbox.path("p.png")).unwrap();
    fs::copy(golden("vision/picture.jpg"), sandbox.path("p.jpg")).unwrap();
    let ask = |more: &[&str]| {
        let args = ["model.gguf", "--mmproj", "mmproj.gguf", "-n", "5", "-j", "1"];
        generate(&sandbox, &[&args[..], more].concat())
    };
    let one = succeed(ask(&["--prompt", "a llama", "--image", "p.png"]));
    // Its tokenizer has no such token, as no tiny one has.
    one.says("warning: missing token `[IMG_END]` in the vocabulary");
    one.says(" tokens after ");
    // The image's content matters, and its position; by default that is before the prompt.
    let answer = ask(&["--prompt", "<__media__>a llama", "--image", "p.png"]);
    assert_eq!(answer.stdout, one.stdout);
    succeed(ask(&["--prompt", "a <__media__> llama <__media__>", "--image", "p.png", "--image", "p.jpg"]));
    succeed(ask(&["--prompt", "a llama", "--image", "p.png", "--image-tokens", "8"]));
}

#[test]
fn unsupported_pictures_are_refused() {
    let sandbox = converted("pixtral");
    fs::copy(golden("vision/picture.png"), sandbox.path("p.png")).unwrap();
    sandbox.write("text.png", "no picture");
    let png = sandbox.read("p.png");
    sandbox.write("cut.png", &png[..png.len() / 2]);
    succeed(sandbox.convert(&[
        gguf_testkit::projector("cogvlm").to_str().unwrap(),
        "cogvlm.gguf",
        "--mmproj",
        "-t",
        "f32",
        "-q",
    ]));
    // A model whose embeddings are twice as long.
    let wide = sandbox.convert(&[
        gguf_testkit::checkpoint("llama").to_str().unwrap(),
        "wide.gguf",
        "-t",
        "f32",
        "-q",
    ]);
    assert_eq!(wide.code, Some(0), "{}", wide.stderr);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["model.gguf", "--mmproj", "mmproj.gguf"], 2, "--image"),
        (&["model.gguf", "--image", "p.png"], 2, "--mmproj"),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--image", "none.png"], 1, "none.png: cannot open"),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--image", "text.png"], 1, "not a PNG or JPEG image"),
        (&["model.gguf", "--mmproj", "mmproj.gguf", "--image", "cut.png"], 1, "cut.png: PNG image: "),
        (&["model.gguf", "--mmproj", "model.gguf", "--image", "p.png"], 1, "not a projector"),
        (&["model.gguf", "--mmproj", "cogvlm.gguf", "--image", "p.png"], 1, "cannot be run: not supported"),
        (&["mmproj.gguf", "--mmproj", "mmproj.gguf", "--image", "p.png"], 1, "the file is a projector"),
        (&["mmproj.gguf"], 1, "the file is a projector"),
        (&["wide.gguf", "--mmproj", "mmproj.gguf", "--image", "p.png"], 1, "embeddings of 32 values"),
    ];
    for (args, code, message) in cases {
        let ran = generate(&sandbox, &[args, &["--prompt", "x"][..]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(*code), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
    let places = ["model.gguf", "--mmproj", "mmproj.gguf", "--image", "p.png", "--prompt"];
    let ran = generate(&sandbox, &[&places[..], &["<__media__> and <__media__>"]].concat());
    assert!(
        ran.code == Some(2)
            && ran.stderr.contains("image placeholders (`<__media__>`) in the prompt, found 2"),
        "{}",
        ran.stderr
    );
}
