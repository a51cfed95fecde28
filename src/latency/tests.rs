use std::time::Duration;

use hdrhistogram::Histogram;
use proptest::prelude::*;

use super::*;

fn ns(latency: u64) -> Duration {
    Duration::from_nanos(latency)
}

/// Operation, size, latency in ns: what a thread records.
fn records() -> impl Strategy<Value = Vec<(u8, Option<usize>, u64)>> {
    let size = proptest::option::of(prop_oneof![Just(0), 1..5_usize, 1000..100_000_usize]);
    let latency = prop_oneof![0..100_u64, 0..10_000_000_u64, 0..4_000_000_000_000_u64];
    prop::collection::vec((0..3_u8, size, latency), 0..30)
}

fn record_all<'a>(
    recorder: &mut Recorder,
    records: impl IntoIterator<Item = &'a (u8, Option<usize>, u64)>,
) {
    for &(operation, size, latency) in records {
        let name = format!("test.{operation}");
        match size {
            None => recorder.record(name.as_str(), ns(latency)),
            Some(bytes) => recorder.record_sized(name.as_str(), bytes, ns(latency)),
        }
    }
}

fn content(recorder: &Recorder) -> Vec<(String, Histogram<u64>)> {
    let rows = recorder.rows();
    let pair = |row: &Row<'_>| (row.label(), row.histogram.clone());
    rows.iter().map(pair).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_merge_is_recording_all_in_one(records in records(), cut in 0..30_usize) {
        let (front, back) = records.split_at(cut.min(records.len()));
        let [mut all, mut one, mut two] = [(); 3].map(|()| Recorder::new());
        record_all(&mut all, &records);
        record_all(&mut one, front);
        record_all(&mut two, back);
        one.merge(&two);
        prop_assert_eq!(content(&one), content(&all));
        let recorded: u64 = all.rows().iter().map(|row| row.histogram.len()).sum();
        prop_assert_eq!(recorded, records.len() as u64);
    }

    #[test]
    fn bytes_hold_everything(records in records()) {
        let mut recorder = Recorder::new();
        record_all(&mut recorder, &records);
        recorder.end();
        let bytes = recorder.to_bytes();
        let read = Recorder::from_bytes(&bytes).expect("own bytes");
        prop_assert_eq!(content(&read), content(&recorder));
        prop_assert_eq!((read.begun, read.ended), (recorder.begun, recorder.ended));
    }

    #[test]
    fn damaged_bytes_are_no_recorder_and_no_panic(
        records in records(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut recorder = Recorder::new();
        record_all(&mut recorder, &records);
        let mut bytes = recorder.to_bytes();
        let at = at.index(bytes.len());
        prop_assert!(Recorder::from_bytes(&bytes[..at.min(15)]).is_err());
        bytes[at] = byte;
        let _ = Recorder::from_bytes(&bytes);
    }

    #[test]
    fn three_digits_are_kept(latency in 0..5_000_000_000_000_u64) {
        let mut recorder = Recorder::new();
        recorder.record("test.digits", ns(latency));
        let kept = recorder.get("test.digits", None).expect("recorded").max();
        let expected = latency.clamp(1, 3_600_000_000_000);
        prop_assert!(kept.abs_diff(expected) <= expected / 1000, "{kept} for {expected}");
    }

    /// What coordinated omission hides: a period late, two periods late, and so on.
    #[test]
    fn a_corrected_record_tells_of_those_that_waited(
        latency in 1..2_000_u64,
        period in 1..2_000_u64,
    ) {
        let mut recorder = Recorder::new();
        recorder.record_corrected("test.corrected", ns(latency), ns(period));
        let mut expected = vec![latency];
        let mut waited = latency.saturating_sub(period);
        while waited >= period {
            expected.push(waited);
            waited -= period;
        }
        expected.sort_unstable();
        let histogram = recorder.get("test.corrected", None).expect("recorded");
        let found: Vec<u64> = histogram
            .iter_recorded()
            .flat_map(|step| {
                let times = usize::try_from(step.count_at_value()).expect("few");
                std::iter::repeat_n(step.value_iterated_to(), times)
            })
            .collect();
        // Below 2,048 every nanosecond has a count of its own.
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_size_class_holds_what_is_up_to_its_size(bytes in 0..1_usize << 40) {
        let class = SizeClass::of(bytes);
        prop_assert!(class.bytes() >= bytes as u64);
        prop_assert!(bytes < 2 || class.bytes() < 2 * bytes as u64);
    }
}

#[test]
fn no_period_is_no_correction() {
    let mut recorder = Recorder::new();
    recorder.record_corrected("test.uncorrected", ns(500), Duration::ZERO);
    let histogram = recorder.get("test.uncorrected", None).expect("recorded");
    assert_eq!((histogram.len(), histogram.max()), (1, 500));
}

#[test]
fn size_classes_are_readable() {
    let label = |bytes| SizeClass::of(bytes).to_string();
    assert_eq!(
        [0, 1, 3, 1024, 1025, 65_536, 1 << 20, usize::MAX].map(label),
        ["0B", "1B", "4B", "1KiB", "2KiB", "64KiB", "1MiB", "8EiB"]
    );
}

#[test]
fn a_thread_records_between_start_and_stop_only() {
    static PROBE: Probe = Probe::new("test.probe");
    let probe = || {
        PROBE.end(PROBE.begin());
        PROBE.end_sized(PROBE.begin(), 100);
        record("test.direct", ns(7));
        time("test.closure", || ());
        let _scope = scope("test.guard");
    };
    probe();
    start();
    assert!(is_recording());
    probe();
    let other = std::thread::spawn(move || {
        assert!(!is_recording());
        start();
        probe();
        stop()
    });
    absorb(&other.join().expect("no panic"));
    let recorder = stop();
    probe();
    absorb(&recorder);
    let found: Vec<_> = content(&recorder)
        .into_iter()
        .map(|(label, histogram)| (label, histogram.len()))
        .collect();
    let expected = [
        "test.closure",
        "test.direct",
        "test.guard",
        "test.probe",
        "test.probe:128B",
    ];
    assert_eq!(found, expected.map(|label| (label.to_owned(), 2)));
    assert!(stop().is_empty());
}

#[test]
fn scopes_and_closures_record_their_time() {
    let mut recorder = Recorder::new();
    let pause = Duration::from_millis(2);
    {
        let _scope = recorder.scope("test.scope");
        std::thread::sleep(pause);
    }
    let result = recorder.time("test.time", || {
        std::thread::sleep(pause);
        5
    });
    assert_eq!(result, 5);
    for name in ["test.scope", "test.time"] {
        let shortest = recorder.get(name, None).expect("recorded").min();
        assert!(shortest >= 1_990_000, "{name}: {shortest} ns");
    }
}

/// As the crate's own reader reads it.
fn read_log(log: &[u8]) -> Vec<(String, f64, Histogram<u64>)> {
    use base64::Engine as _;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(log) {
        if let LogEntry::Interval(interval) = entry.expect("a line of a log") {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(interval.encoded_histogram())
                .expect("base64");
            let histogram = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .expect("a histogram");
            let tag = interval.tag().expect("a tag").as_str().to_owned();
            found.push((tag, interval.max(), histogram));
        }
    }
    found
}

#[test]
fn an_interval_log_is_read_back() {
    let mut recorder = Recorder::new();
    record_all(
        &mut recorder,
        &[
            (0, None, 5),
            (0, None, 1_234_567),
            (1, Some(64), 99),
            (2, Some(0), 1),
        ],
    );
    recorder.record("with space, comma", ns(3));
    let mut log = Vec::new();
    recorder.write_log(&mut log).expect("written");
    let text = String::from_utf8(log.clone()).expect("text");
    assert!(
        text.starts_with("#[Histogram log format version 1.3]\n"),
        "{text}"
    );
    assert!(text.contains("#[StartTime: "), "{text}");
    let expected: Vec<_> = content(&recorder)
        .into_iter()
        .map(|(label, histogram)| (label.replace([' ', ','], "_"), histogram))
        .collect();
    let read = read_log(&log);
    assert_eq!(read[0].0, "test.0");
    assert!(
        (read[0].1 - 1234.567).abs() < 2.0,
        "a maximum in µs: {}",
        read[0].1
    );
    let found: Vec<_> = read
        .into_iter()
        .map(|(tag, _, histogram)| (tag, histogram))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_percentile_distribution_has_the_form_that_tools_read() {
    let mut recorder = Recorder::new();
    for latency in 1..=1000 {
        recorder.record("test.hgrm", ns(latency));
    }
    let rows = recorder.rows();
    let text = rows[0].percentile_distribution();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "       Value     Percentile TotalCount 1/(1-Percentile)"
    );
    assert_eq!(lines[1], "");
    assert_eq!(
        lines[2],
        "       0.001 0.000000000000          1           1.00"
    );
    let half = lines.iter().find(|line| line.contains(" 0.500000000000 "));
    assert_eq!(
        half,
        Some(&"       0.500 0.500000000000        500           2.00")
    );
    let end = lines.len() - 4;
    assert_eq!(lines[end], "       1.000 1.000000000000       1000");
    assert_eq!(
        lines[end + 1],
        "#[Mean    =        0.500, StdDeviation   =        0.289]"
    );
    assert_eq!(
        lines[end + 2],
        "#[Max     =        1.000, Total count    =         1000]"
    );
    assert!(
        lines[end + 3].starts_with("#[Buckets = "),
        "{}",
        lines[end + 3]
    );
    assert!(
        lines[end + 3].ends_with("SubBuckets     =         2048]"),
        "{}",
        lines[end + 3]
    );
}

#[test]
fn files_and_table_have_every_histogram() {
    let mut recorder = Recorder::new();
    recorder.record("test.a/b", ns(1500));
    recorder.record_sized("test.c", 4096, ns(2500));
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("new");
    recorder.write_files(&inside).expect("written");
    let mut names: Vec<_> = std::fs::read_dir(&inside)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    assert_eq!(names, ["latency.hlog", "test.a.b.hgrm", "test.c.4KiB.hgrm"]);
    let table = recorder.table();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "operation",
            "count",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "µs"
        ]
    );
    assert_eq!(lines[1][..3], ["test.a/b", "1", "1.500"]);
    assert_eq!(lines[2][..3], ["test.c:4KiB", "1", "2.501"]);
}
