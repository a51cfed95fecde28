//! Proteo's JSON: `general`, `phases` and `groups`.

use jsonc_parser::ParseOptions;
use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;

use super::super::error::{Error, Problem};
use super::super::tree::{Entry, Field, Lines, Node, Place, Table, Value};
use super::super::{Configuration, Form, ReadOptions};
use super::{ProteoNumbers, Reader, Tables};

/// Reads Proteo's JSON.
pub(in super::super) fn parse(text: &str, options: &ReadOptions) -> Result<Configuration, Error> {
    let mut root = tree(text)?;
    let mut general = Table::new(root.require("general", "an object")?)?;
    general.place.key = "general".to_owned();
    let phases = root
        .require("phases", "a list of objects")?
        .tables(|index| format!("phases[{index}]"))?
        .into_iter()
        .map(|mut phase| {
            let name = phase.name("stages");
            let stages = phase
                .require("stages", "a list of objects")?
                .tables(|index| format!("{name}[{index}]"))?;
            Ok((phase, stages))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let groups = root
        .require("groups", "a list of objects")?
        .tables(|index| format!("groups[{index}]"))?;
    let mut reader = Reader {
        form: Form::ProteoJson,
        numbers: ProteoNumbers::New,
        ignored: Vec::new(),
    };
    reader.ignore_rest(root);
    let tables = Tables {
        form: Form::ProteoJson,
        general,
        phases,
        groups,
        ignored: reader.ignored,
    };
    super::read(tables, options)
}

fn tree(text: &str) -> Result<Table, Error> {
    // As strict as the parser that SAM uses.
    let strict = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let lines = Lines::new(text);
    let syntax = |line, message| {
        let problem = Problem::Syntax {
            language: "JSON",
            message,
        };
        Error::of_file(Some(line), problem)
    };
    let document = jsonc_parser::parse_to_ast(text, &Default::default(), &strict)
        .map_err(|error| syntax(lines.at(error.range().start), error.kind().to_string()))?;
    let Some(value) = document.value else {
        return Err(syntax(1, "the file is empty".to_owned()));
    };
    let place = Place {
        key: String::new(),
        line: lines.at(value.range().start),
    };
    let node = node(&value, "", &lines)?;
    match node.value {
        Value::Table(entries) => Ok(Table { place, entries }),
        other => {
            let place = Place {
                key: "the file".to_owned(),
                ..place
            };
            let field = Field {
                place,
                value: other,
            };
            Err(field.refuse("an object with general, phases and groups"))
        }
    }
}

/// A value with all that it holds. `name` is its key in messages.
fn node(value: &ast::Value<'_>, name: &str, lines: &Lines) -> Result<Node, Error> {
    let line = lines.at(value.range().start);
    let value = match value {
        ast::Value::StringLit(text) => Value::Text(text.value.to_string()),
        ast::Value::NumberLit(number) => match number.value.parse() {
            Ok(integer) => Value::Integer(integer),
            Err(_) => number
                .value
                .parse()
                .map_or(Value::Other("a number that cannot be read"), Value::Float),
        },
        ast::Value::BooleanLit(boolean) => Value::Boolean(boolean.value),
        ast::Value::NullKeyword(_) => Value::Other("null"),
        ast::Value::Array(array) => Value::List(
            array
                .elements
                .iter()
                .enumerate()
                .map(|(index, element)| node(element, &format!("{name}[{index}]"), lines))
                .collect::<Result<_, _>>()?,
        ),
        ast::Value::Object(object) => {
            let mut table = Table {
                place: Place {
                    key: name.to_owned(),
                    line,
                },
                entries: Vec::new(),
            };
            for property in &object.properties {
                let key = property.name.as_str();
                let value = node(&property.value, &table.name(key), lines)?;
                table.entries.push(Entry {
                    key: key.to_owned(),
                    line: lines.at(property.range.start),
                    value,
                });
            }
            table.no_duplicates()?;
            Value::Table(table.entries)
        }
    };
    Ok(Node { line, value })
}
