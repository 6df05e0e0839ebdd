//! Tokens, by example.

use ptx::{TokenKind, tokenize};

/// Kinds and texts of the tokens that are not trivia.
fn tokens(source: &str) -> Vec<(TokenKind, &str)> {
    let all = tokenize(source);
    assert_eq!(
        all.iter().map(|t| t.span.text(source)).collect::<String>(),
        source
    );
    all.into_iter()
        .filter(|t| t.kind != TokenKind::Trivia)
        .map(|t| (t.kind, t.span.text(source)))
        .collect()
}

fn kinds(source: &str) -> Vec<TokenKind> {
    tokens(source).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn each_kind() {
    use TokenKind::*;
    for (kind, texts) in [
        (
            Word,
            &[
                "ld.global.f32",
                "%r1",
                "%tid.x",
                "$L__BB0_1",
                "_",
                "_Z3fooPi",
                "shared::cta",
                "a.cta_group::1.b",
                "%",
            ][..],
        ),
        (Directive, &[".reg", ".b32", ".shared::cta", ".L", ".v4"]),
        (
            Integer,
            &["0", "12", "0x1F", "0XfU", "0b101", "017", "5U", "08"],
        ),
        (
            Float,
            &[
                "1.5",
                "1.",
                ".5",
                "1e10",
                "1e-3",
                "1.5E+3",
                "0f3F800000",
                "0d3FF0000000000000",
                "0F00000000",
            ],
        ),
        (String, &["\"\"", "\"a b\"", "\"a\\\"b\"", "\"é\""]),
        (Unknown, &["é", "\u{0}", "\\", "`", "'", "日本"]),
        (Unterminated, &["\"abc", "/* abc", "\"a\\"]),
    ] {
        for text in texts {
            assert_eq!(tokens(text), [(kind, *text)], "{text}");
        }
    }
    for c in b"{}()[],;:@!|+-=<>*/&^~?" {
        assert_eq!(kinds(&(*c as char).to_string()), [Punct(*c)]);
    }
    for trivia in [
        "",
        " \t\r\n\u{c}",
        "// to the end",
        "/* a\n b */",
        "# 1 \"file\"",
        "  # 1",
    ] {
        assert_eq!(kinds(trivia), [], "{trivia}");
    }
}

#[test]
fn where_tokens_end() {
    use TokenKind::*;
    assert_eq!(
        tokens(".visible.func"),
        [(Directive, ".visible"), (Directive, ".func")]
    );
    assert_eq!(
        tokens("L:ret;"),
        [
            (Word, "L"),
            (Punct(b':'), ":"),
            (Word, "ret"),
            (Punct(b';'), ";")
        ]
    );
    assert_eq!(
        tokens("L: :x"),
        [
            (Word, "L"),
            (Punct(b':'), ":"),
            (Punct(b':'), ":"),
            (Word, "x")
        ]
    );
    assert_eq!(
        tokens("4+4"),
        [(Integer, "4"), (Punct(b'+'), "+"), (Integer, "4")]
    );
    assert_eq!(tokens("1. .x"), [(Float, "1."), (Directive, ".x")]);
    assert_eq!(
        tokens("\"open\nnext"),
        [(Unterminated, "\"open"), (Word, "next")]
    );
    assert_eq!(tokens("a//b\nc"), [(Word, "a"), (Word, "c")]);
    assert_eq!(tokens("a/*b*/c"), [(Word, "a"), (Word, "c")]);
    assert_eq!(
        tokens("%p1|%p2"),
        [(Word, "%p1"), (Punct(b'|'), "|"), (Word, "%p2")]
    );
    assert_eq!(tokens("a # b"), [(Word, "a"), (Unknown, "#"), (Word, "b")]);
    assert_eq!(tokens("b.b32%r1"), [(Word, "b.b32"), (Word, "%r1")]);
    assert_eq!(tokens("7%%r"), [(Integer, "7"), (Word, "%"), (Word, "%r")]);
    assert_eq!(tokens("éa"), [(Unknown, "é"), (Word, "a")]);
}
