//! Which words and signs is a condition made of?

use super::Wrong;
use crate::queue::read::scalar::core;
use crate::queue::sweep::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Literal(Value),
    Name(String),
    /// Also `and`, `or`, `not`, `in`.
    Sign(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    pub token: Token,
    pub at: usize,
    pub width: usize,
}

const SIGNS: [&str; 17] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", "="];
const WORDS: [&str; 4] = ["and", "or", "not", "in"];

pub fn lex(text: &str) -> Result<Vec<Placed>, Wrong> {
    let letters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = letters.get(at) {
        if c.is_whitespace() {
            at += 1;
            continue;
        }
        let (token, width) = match c {
            '0'..='9' | '.' => number(&letters, at)?,
            '\'' | '"' | '`' => quoted(&letters, at)?,
            _ if c.is_ascii_alphabetic() || c == '_' => word(&letters, at),
            _ => sign(&letters, at)?,
        };
        tokens.push(Placed { token, at, width });
        at += width;
    }
    Ok(tokens)
}

fn number(letters: &[char], at: usize) -> Result<(Token, usize), Wrong> {
    let mut width = 0;
    while let Some(&c) = letters.get(at + width) {
        let signs_exponent = matches!(c, '-' | '+') && width > 0 && matches!(letters[at + width - 1], 'e' | 'E');
        if !(c.is_ascii_alphanumeric() || c == '.' || signs_exponent) {
            break;
        }
        width += 1;
    }
    let text: String = letters[at..at + width].iter().collect();
    match core(&text) {
        Ok(value @ (Value::Int(_) | Value::Float(_))) => Ok((Token::Literal(value), width)),
        _ => Err(Wrong { at, width, why: format!("`{text}` is no number; put text in quotes") }),
    }
}

/// Text in quotes, or a name in backquotes.
fn quoted(letters: &[char], at: usize) -> Result<(Token, usize), Wrong> {
    let quote = letters[at];
    let mut text = String::new();
    let mut width = 1;
    while let Some(&c) = letters.get(at + width) {
        width += 1;
        match c {
            _ if c == quote => {
                let token = if quote == '`' { Token::Name(text) } else { Token::Literal(Value::Text(text)) };
                return Ok((token, width));
            }
            '\\' if letters.get(at + width).is_some() => {
                text.push(letters[at + width]);
                width += 1;
            }
            _ => text.push(c),
        }
    }
    Err(Wrong { at, width: 1, why: "this quote is not closed".into() })
}

fn word(letters: &[char], at: usize) -> (Token, usize) {
    let inner = |c: &&char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let width = letters[at..].iter().take_while(inner).count();
    let text: String = letters[at..at + width].iter().collect();
    let token = match text.as_str() {
        "true" | "True" => Token::Literal(Value::Bool(true)),
        "false" | "False" => Token::Literal(Value::Bool(false)),
        "null" | "None" => Token::Literal(Value::Null),
        _ => match WORDS.iter().find(|word| **word == text) {
            Some(word) => Token::Sign(word),
            None => Token::Name(text),
        },
    };
    (token, width)
}

fn sign(letters: &[char], at: usize) -> Result<(Token, usize), Wrong> {
    let starts = |sign: &&&str| sign.chars().enumerate().all(|(n, c)| letters.get(at + n) == Some(&c));
    match SIGNS.iter().find(starts) {
        Some(&"=") => Err(Wrong { at, width: 1, why: "`=` gives a value; to compare, write `==`".into() }),
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None if letters[at] == '&' || letters[at] == '|' => {
            Err(Wrong { at, width: 1, why: "write `and` and `or`".into() })
        }
        None if letters[at] == '!' => Err(Wrong { at, width: 1, why: "write `not`".into() }),
        None => Err(Wrong { at, width: 1, why: format!("`{}` means nothing here", letters[at]) }),
    }
}
