//! What do the words of a condition mean together?
//!
//! As in Python: `or`, `and`, `not`, comparisons (which chain) and `in`, `+ -`, `* / %`, a minus, parentheses.

use super::Wrong;
use super::lex::{Placed, Token, lex};
use crate::queue::sweep::Value;

/// Longer, or deeper, is not a condition that somebody wrote.
const LONGEST: usize = 1000;
const DEEPEST: usize = 40;

#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub(super) root: Node,
    /// The parameters it asks for; nodes refer to them by number.
    pub names: Vec<(String, usize)>,
}

/// A part of it, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub at: usize,
    pub width: usize,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Literal(Value),
    Parameter(usize),
    List(Vec<Node>),
    Not(Box<Node>),
    Minus(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Arithmetic(Sign, Box<Node>, Box<Node>),
    /// `a < b <= c`: the first, and then each further one with its sign.
    Compare(Box<Node>, Vec<(Relation, Node)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    In,
    NotIn,
}

pub fn parse(text: &str) -> Result<Condition, Wrong> {
    let length = text.chars().count();
    if length > LONGEST {
        let why = format!("a condition of more than {LONGEST} characters");
        return Err(Wrong { at: 0, width: 1, why });
    }
    let mut parser = Parser { tokens: lex(text)?, next: 0, end: length, depth: 0, names: Vec::new() };
    let root = parser.or()?;
    match parser.tokens.get(parser.next) {
        None => Ok(Condition { root, names: parser.names }),
        Some(extra) => {
            let why = "expected `and`, `or`, a comparison or the end".to_string();
            Err(Wrong { at: extra.at, width: extra.width, why })
        }
    }
}

struct Parser {
    tokens: Vec<Placed>,
    next: usize,
    end: usize,
    depth: usize,
    names: Vec<(String, usize)>,
}

impl Parser {
    fn take(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        match self.tokens.get(self.next)?.token {
            Token::Sign(sign) if signs.contains(&sign) => {
                self.next += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn here(&self) -> (usize, usize) {
        self.tokens.get(self.next).map_or((self.end, 1), |token| (token.at, token.width))
    }

    /// From `start` to what was taken last.
    fn node(&self, start: usize, what: What) -> Node {
        let last = self.next.checked_sub(1).and_then(|last| self.tokens.get(last));
        let end = last.map_or(start + 1, |last| last.at + last.width);
        Node { at: start, width: end.saturating_sub(start).max(1), what }
    }

    /// The stack is bounded, whatever the text.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Parser) -> Result<T, Wrong>) -> Result<T, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let (at, width) = self.here();
            return Err(Wrong { at, width, why: format!("nested more than {DEEPEST} levels deep") });
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn or(&mut self) -> Result<Node, Wrong> {
        let (start, _) = self.here();
        let mut left = self.and()?;
        while self.take(&["or"]).is_some() {
            let right = self.and()?;
            left = self.node(start, What::Or(Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node, Wrong> {
        let (start, _) = self.here();
        let mut left = self.not()?;
        while self.take(&["and"]).is_some() {
            let right = self.not()?;
            left = self.node(start, What::And(Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node, Wrong> {
        let (start, _) = self.here();
        if self.take(&["not"]).is_none() {
            return self.comparison();
        }
        let inner = self.deeper(Parser::not)?;
        Ok(self.node(start, What::Not(Box::new(inner))))
    }

    fn comparison(&mut self) -> Result<Node, Wrong> {
        let (start, _) = self.here();
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(relation) = self.relation()? {
            rest.push((relation, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { self.node(start, What::Compare(Box::new(first), rest)) })
    }

    fn relation(&mut self) -> Result<Option<Relation>, Wrong> {
        Ok(match self.take(&["<", "<=", ">", ">=", "==", "!=", "in", "not"]) {
            Some("<") => Some(Relation::Less),
            Some("<=") => Some(Relation::LessOrEqual),
            Some(">") => Some(Relation::Greater),
            Some(">=") => Some(Relation::GreaterOrEqual),
            Some("==") => Some(Relation::Equal),
            Some("!=") => Some(Relation::NotEqual),
            Some("in") => Some(Relation::In),
            Some(_) if self.take(&["in"]).is_some() => Some(Relation::NotIn),
            Some(_) => {
                let (at, width) = self.here();
                return Err(Wrong { at, width, why: "expected `in` after this `not`".into() });
            }
            None => None,
        })
    }

    fn sum(&mut self) -> Result<Node, Wrong> {
        let (start, _) = self.here();
        let mut left = self.product()?;
        while let Some(sign) = self.take(&["+", "-"]) {
            let sign = if sign == "+" { Sign::Plus } else { Sign::Minus };
            let right = self.product()?;
            left = self.node(start, What::Arithmetic(sign, Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, Wrong> {
        let (start, _) = self.here();
        let mut left = self.signed()?;
        while let Some(sign) = self.take(&["*", "/", "%"]) {
            let sign = match sign {
                "*" => Sign::Times,
                "/" => Sign::Over,
                _ => Sign::Modulo,
            };
            let right = self.signed()?;
            left = self.node(start, What::Arithmetic(sign, Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Node, Wrong> {
        let (start, _) = self.here();
        if self.take(&["-"]).is_none() {
            return self.atom();
        }
        let inner = self.deeper(Parser::signed)?;
        Ok(self.node(start, What::Minus(Box::new(inner))))
    }

    fn atom(&mut self) -> Result<Node, Wrong> {
        let (at, width) = self.here();
        if self.take(&["("]).is_some() {
            let inner = self.deeper(Parser::or)?;
            self.close(")", at)?;
            return Ok(inner);
        }
        if self.take(&["["]).is_some() {
            let items = self.deeper(Parser::items)?;
            self.close("]", at)?;
            return Ok(self.node(at, What::List(items)));
        }
        let what = match self.tokens.get(self.next).map(|placed| placed.token.clone()) {
            Some(Token::Literal(value)) => What::Literal(value),
            Some(Token::Name(name)) => What::Parameter(self.number_of(name, at)),
            Some(Token::Sign(_)) | None => {
                let why = "expected a parameter, a number, text in quotes or a parenthesis".to_string();
                return Err(Wrong { at, width, why });
            }
        };
        self.next += 1;
        Ok(Node { at, width, what })
    }

    fn items(&mut self) -> Result<Vec<Node>, Wrong> {
        let mut items = Vec::new();
        let closes = |parser: &Parser| matches!(parser.tokens.get(parser.next), Some(p) if p.token == Token::Sign("]"));
        while !closes(self) {
            items.push(self.sum()?);
            if self.take(&[","]).is_none() {
                break;
            }
        }
        Ok(items)
    }

    fn close(&mut self, sign: &'static str, opened: usize) -> Result<(), Wrong> {
        if self.take(&[sign]).is_some() {
            return Ok(());
        }
        let (at, width) = self.here();
        let why = match at == self.end {
            true => format!("`{sign}` is missing"),
            false => format!("expected `{sign}` here"),
        };
        Err(if at == self.end { Wrong { at: opened, width: 1, why } } else { Wrong { at, width, why } })
    }

    fn number_of(&mut self, name: String, at: usize) -> usize {
        if let Some(known) = self.names.iter().position(|(known, _)| *known == name) {
            return known;
        }
        self.names.push((name, at));
        self.names.len() - 1
    }
}
