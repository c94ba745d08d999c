//! Environment markers of Python requirements: does this line count on this machine?
//!
//! The grammar is that of the dependency specifiers of the packaging guide (PEP 508). What cannot be known
//! here, such as a chosen extra, is neither yes nor no, so that nothing is called missing that may well be.

/// What markers ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Version of Python, as `3.11.7`; unknown where no interpreter was found.
    pub python: Option<String>,
    /// As `cpython`.
    pub implementation: Option<String>,
    /// As `linux`.
    pub os: String,
    /// As `x86_64`.
    pub arch: String,
}

/// Judges a marker; `None` where it asks for something that is not known here or cannot be read.
pub(super) fn holds(marker: &str, target: &Target) -> Option<bool> {
    let tokens = tokens(marker)?;
    let mut parser = Parser { tokens: &tokens, at: 0, target, depth: 0 };
    let answer = parser.any()?;
    if parser.at == tokens.len() { answer } else { None }
}

/// A word of a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    Text(String),
    Word(String),
    Operator(String),
}

fn tokens(marker: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = marker.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '\'' | '"' => {
                let end = rest[1..].find(first)?;
                (Token::Text(rest[1..=end].to_owned()), end + 2)
            }
            '<' | '>' | '=' | '!' | '~' => {
                let end = rest.find(|c| !"<>=!~".contains(c)).unwrap_or(rest.len());
                (Token::Operator(rest[..end].to_owned()), end)
            }
            _ => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                if end == 0 {
                    return None;
                }
                (Token::Word(rest[..end].to_owned()), end)
            }
        };
        found.push(token);
        rest = rest[length..].trim_start();
    }
    Some(found)
}

/// Levels of brackets that a marker may have.
const MAX_DEPTH: usize = 64;

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    target: &'a Target,
    depth: usize,
}

/// The outer option says that the text could be read, the inner one that the answer is known.
type Answer = Option<Option<bool>>;

impl Parser<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Word(here)) if here == word);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Answer {
        let mut answer = self.all()?;
        while self.takes("or") {
            answer = match (answer, self.all()?) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
        }
        Some(answer)
    }

    fn all(&mut self) -> Answer {
        let mut answer = self.one()?;
        while self.takes("and") {
            answer = match (answer, self.one()?) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
        }
        Some(answer)
    }

    fn one(&mut self) -> Answer {
        if self.tokens.get(self.at) == Some(&Token::Open) {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return None;
            }
            self.at += 1;
            let answer = self.any()?;
            let closed = self.tokens.get(self.at) == Some(&Token::Close);
            (self.at, self.depth) = (self.at + 1, self.depth - 1);
            return closed.then_some(answer);
        }
        let left = self.side()?;
        let operator = match self.tokens.get(self.at)? {
            Token::Operator(operator) => operator.clone(),
            Token::Word(word) if word == "in" => "in".to_owned(),
            Token::Word(word) if word == "not" => {
                self.at += 1;
                if !matches!(self.tokens.get(self.at), Some(Token::Word(word)) if word == "in") {
                    return None;
                }
                "not in".to_owned()
            }
            _ => return None,
        };
        self.at += 1;
        let right = self.side()?;
        let (Some((left, is_version)), Some((right, is_also))) = (left, right) else { return Some(None) };
        Some(compare(&left, &operator, &right, is_version || is_also))
    }

    /// Returns a side's text and whether it is a version; the inner `None` is a variable that is not known.
    #[expect(clippy::option_option, reason = "what cannot be read and what is not known are two answers")]
    fn side(&mut self) -> Option<Option<(String, bool)>> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        match token {
            Token::Text(text) => Some(Some((text, false))),
            Token::Word(word) => Some(self.variable(&word)),
            _ => None,
        }
    }

    fn variable(&self, name: &str) -> Option<(String, bool)> {
        let target = self.target;
        let python = target.python.clone();
        let implementation = target.implementation.clone();
        let plain = |text: &str| Some((text.to_owned(), false));
        match name {
            "python_full_version" => python.map(|version| (version, true)),
            "python_version" => {
                let version = python?;
                let mut parts = version.split('.');
                Some((format!("{}.{}", parts.next()?, parts.next()?), true))
            }
            "sys_platform" => plain(if target.os == "macos" { "darwin" } else { &target.os }),
            "platform_system" => match target.os.as_str() {
                "linux" => plain("Linux"),
                "macos" => plain("Darwin"),
                _ => None,
            },
            "os_name" | "os.name" => plain("posix"),
            "platform_machine" => match (target.os.as_str(), target.arch.as_str()) {
                ("macos", "aarch64") => plain("arm64"),
                (_, arch) => plain(arch),
            },
            "implementation_name" => implementation.map(|name| (name, false)),
            "platform_python_implementation" => match implementation?.as_str() {
                "cpython" => plain("CPython"),
                "pypy" => plain("PyPy"),
                _ => None,
            },
            _ => None,
        }
    }
}

fn compare(left: &str, operator: &str, right: &str, is_version: bool) -> Option<bool> {
    match operator {
        "in" => return Some(right.contains(left)),
        "not in" => return Some(!right.contains(left)),
        "===" => return Some(left == right),
        _ => {}
    }
    if !is_version {
        return match operator {
            "==" => Some(left == right),
            "!=" => Some(left != right),
            "<" => Some(left < right),
            ">" => Some(left > right),
            "<=" => Some(left <= right),
            ">=" => Some(left >= right),
            _ => None,
        };
    }
    if let Some(prefix) = right.strip_suffix(".*") {
        let (left, prefix) = (numbers(left)?, numbers(prefix)?);
        let starts = left.starts_with(&prefix);
        return match operator {
            "==" => Some(starts),
            "!=" => Some(!starts),
            _ => None,
        };
    }
    let (a, b) = (numbers(left)?, numbers(right)?);
    let width = a.len().max(b.len());
    let wide = |numbers: &[u64]| {
        let mut wide = numbers.to_vec();
        wide.resize(width, 0);
        wide
    };
    let order = wide(&a).cmp(&wide(&b));
    match operator {
        "==" => Some(order.is_eq()),
        "!=" => Some(order.is_ne()),
        "<" => Some(order.is_lt()),
        ">" => Some(order.is_gt()),
        "<=" => Some(order.is_le()),
        ">=" => Some(order.is_ge()),
        "~=" if b.len() > 1 => Some(order.is_ge() && a.starts_with(&b[..b.len() - 1])),
        _ => None,
    }
}

/// Reads a version of numbers only; markers ask about releases of Python.
fn numbers(version: &str) -> Option<Vec<u64>> {
    version.trim().split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(marker: &str) -> Option<bool> {
        let target = Target {
            python: Some("3.11.7".to_owned()),
            implementation: Some("cpython".to_owned()),
            os: "linux".to_owned(),
            arch: "x86_64".to_owned(),
        };
        holds(marker, &target)
    }

    #[test]
    fn markers_of_real_lock_files_are_judged() {
        for (marker, expected) in [
            ("python_version >= '3.10'", Some(true)),
            ("python_version < \"3.9\"", Some(false)),
            ("python_version == '3.11'", Some(true)),
            ("python_full_version < '3.11.8'", Some(true)),
            ("python_version ~= '3.8'", Some(true)),
            ("python_version ~= '3.8.1'", Some(false)),
            ("python_version == '3.*'", Some(true)),
            ("'3.9' <= python_version", Some(true)),
            ("sys_platform == 'win32'", Some(false)),
            ("platform_system == 'Linux' and platform_machine == 'x86_64'", Some(true)),
            ("(sys_platform == 'darwin' or os_name == 'posix') and python_version > '3'", Some(true)),
            ("platform_python_implementation != 'PyPy'", Some(true)),
            ("platform_machine in 'x86_64 aarch64'", Some(true)),
            ("platform_machine not in 'aarch64'", Some(true)),
        ] {
            assert_eq!(judged(marker), expected, "{marker}");
        }
    }

    #[test]
    fn what_is_not_known_is_neither_yes_nor_no() {
        for (marker, expected) in [
            ("extra == 'gpu'", None),
            ("extra == 'gpu' and sys_platform == 'win32'", Some(false)),
            ("extra == 'gpu' and sys_platform == 'linux'", None),
            ("extra == 'gpu' or sys_platform == 'linux'", Some(true)),
            ("platform_release >= '5'", None),
            ("'dev' in dependency_groups", None),
        ] {
            assert_eq!(judged(marker), expected, "{marker}");
        }
    }

    #[test]
    fn what_is_no_marker_has_no_answer() {
        let deep = format!("{}python_version > '3'{}", "(".repeat(100), ")".repeat(100));
        for marker in
            ["", "python_version", "python_version >", "(sys_platform == 'linux'", "a b c", "'x", "%", &deep]
        {
            assert_eq!(judged(marker), None, "{marker}");
        }
        assert_eq!(judged("python_version >= '3.10' trailing"), None);
    }
}
