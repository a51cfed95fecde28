//! How a variant is called, placed, and drawn: the same wherever it is shown.

/// The variants that the papers' names are known of, in the order in which figures show them.
const KNOWN: [&str; 17] = [
    "col",
    "col-t",
    "col-nb",
    "col-wt",
    "rma1",
    "rma1-t",
    "rma1-t-unlock",
    "rma1-wt",
    "rma1-paced",
    "rma2",
    "rma2-t",
    "rma2-t-unlock",
    "rma2-wt",
    "rma2-paced",
    "p2p",
    "p2p-nb",
    "p2p-wt",
];

/// A color, as red, green and blue.
pub(super) type Color = (u8, u8, u8);

// The palette of Okabe and Ito, which is told apart in every kind of color blindness.
pub(super) const BLACK: Color = (0, 0, 0);
pub(super) const ORANGE: Color = (230, 159, 0);
pub(super) const SKY: Color = (86, 180, 233);
pub(super) const GREEN: Color = (0, 158, 115);
pub(super) const YELLOW: Color = (240, 228, 66);
pub(super) const BLUE: Color = (0, 114, 178);
pub(super) const VERMILLION: Color = (213, 94, 0);
pub(super) const PURPLE: Color = (204, 121, 167);

/// The color of a method; other methods take the others in turn.
const METHODS: [(&str, Color); 4] = [
    ("col", BLUE),
    ("rma1", VERMILLION),
    ("rma2", GREEN),
    ("p2p", PURPLE),
];
const OTHERS: [Color; 5] = [SKY, ORANGE, BLACK, YELLOW, (130, 130, 130)];

/// The form of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    TriangleUp,
    TriangleDown,
    Square,
    Diamond,
    Plus,
    Cross,
    Pentagon,
}

impl Marker {
    const ALL: [Self; 8] = [
        Self::Circle,
        Self::TriangleUp,
        Self::TriangleDown,
        Self::Square,
        Self::Diamond,
        Self::Plus,
        Self::Cross,
        Self::Pentagon,
    ];
}

/// How a variant is drawn: its method gives the color, its strategy the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) color: Color,
    pub(super) marker: Marker,
}

/// Where figures show a variant; those that are not known come last, and keep their names' order.
pub(super) fn place(name: &str) -> usize {
    let known = KNOWN.iter().position(|&known| known == name);
    known.unwrap_or(KNOWN.len())
}

/// What a variant is called: as in the paper, or as it is.
pub(super) fn label(name: &str) -> String {
    if !KNOWN.contains(&name) {
        return name.to_owned();
    }
    match name.strip_suffix("-unlock") {
        Some(paper) => format!("{} at unlock", paper.to_uppercase()),
        None => name.to_uppercase(),
    }
}

/// The part of a variant's name that tells how data moves.
pub(super) fn method(name: &str) -> &str {
    name.split_once('-').map_or(name, |(method, _)| method)
}

/// The part of a variant's name that tells when data moves; empty for blocking.
fn strategy(name: &str) -> &str {
    name.split_once('-').map_or("", |(_, strategy)| strategy)
}

/// Whether a variant's name says that it moves data in the background.
pub(super) fn is_background(name: &str) -> bool {
    is_threading(name) || matches!(strategy(name), "nb" | "wt" | "paced")
}

/// Whether a helper thread does the work.
pub(super) fn is_threading(name: &str) -> bool {
    strategy(name).split('-').any(|part| part == "t")
}

/// The style of each of these variants, no two the same as long as there are enough.
pub(super) fn styles<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(&'a str, Style)> {
    let mut methods: Vec<(&str, Color)> = METHODS.to_vec();
    let mut styles: Vec<(&str, Style)> = Vec::new();
    for name in names {
        let color = match methods.iter().find(|known| known.0 == method(name)) {
            Some(known) => known.1,
            None => {
                let color = OTHERS[(methods.len() - METHODS.len()) % OTHERS.len()];
                methods.push((method(name), color));
                color
            }
        };
        let usual = match strategy(name) {
            "" => Marker::Circle,
            "t" => Marker::TriangleUp,
            "t-unlock" => Marker::TriangleDown,
            "nb" => Marker::Square,
            "wt" => Marker::Diamond,
            "paced" => Marker::Pentagon,
            _ => Marker::Plus,
        };
        let first = Marker::ALL.iter().position(|&marker| marker == usual);
        let markers = Marker::ALL.iter().cycle().skip(first.unwrap_or(0));
        let free = markers.take(Marker::ALL.len()).find(|&&marker| {
            let taken = styles.iter().map(|(_, style)| *style);
            !taken
                .into_iter()
                .any(|style| style == Style { color, marker })
        });
        let marker = free.copied().unwrap_or(usual);
        styles.push((name, Style { color, marker }));
    }
    styles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_variants_have_the_papers_names() {
        assert_eq!(
            ["col", "rma1-wt", "rma2-t-unlock", "p2p-nb", "my-own", "RMA"].map(label),
            [
                "COL",
                "RMA1-WT",
                "RMA2-T at unlock",
                "P2P-NB",
                "my-own",
                "RMA"
            ]
        );
        assert_eq!(
            ["col-t", "rma1-t-unlock", "x-t", "rma1-wt", "t"].map(is_threading),
            [true, true, true, false, false]
        );
        assert_eq!(
            ["col", "x-nb", "x-own", "rma2-t"].map(is_background),
            [false, true, false, true]
        );
        assert_eq!(
            ["col", "rma1-t-unlock", ""].map(method),
            ["col", "rma1", ""]
        );
    }

    #[test]
    fn a_variant_looks_the_same_whatever_is_beside_it() {
        let all = styles(KNOWN);
        for (name, style) in &all {
            assert_eq!(styles([*name])[0].1, *style, "{name}");
        }
        let color = |name: &str| styles([name])[0].1.color;
        assert_eq!(color("rma1"), color("rma1-wt"));
        assert_ne!(color("rma1"), color("rma2"));
    }

    #[test]
    fn no_two_variants_look_the_same() {
        let others = [
            "mapped", "rma", "auto", "own-1", "own-2", "own-3", "z", "y", "x", "w",
        ];
        let all = styles(KNOWN.into_iter().chain(others));
        for (index, (name, style)) in all.iter().enumerate() {
            for (other, another) in &all[..index] {
                assert_ne!(style, another, "{name} and {other}");
            }
        }
        let many: Vec<String> = (0..200).map(|n| format!("v-{n}")).collect();
        assert_eq!(styles(many.iter().map(String::as_str)).len(), 200);
    }
}
