//! What is refused, with each message.

use super::*;

#[test]
fn wrong_json_is_refused() {
    const TYPES: &str = "\"Stage_Type\": 10, \"Stage_Bytes\": 100, \"Stage_Time\": 0";
    for (from, to, message) in [
        // The language.
        (
            "\"Rigid\": 1,",
            "\"Rigid\": 1",
            "p.json:5: not JSON: Expected comma",
        ),
        (
            "\"Rigid\": 1,",
            "\"Rigid\": 1, // no",
            "p.json:5: not JSON: Comments are not allowed",
        ),
        (
            "\"Rigid\": 1,",
            "\"Rigid\": 01,",
            "p.json:5: not JSON: Expected comma",
        ),
        (
            "\"Rigid\": 1,",
            "\"Rigid\": 1, \"Rigid\": 1,",
            "p.json:5: general.Rigid: given again, after line 5; allowed: once",
        ),
        // Types.
        (
            "\"Rigid\": 1",
            "\"Rigid\": true",
            "p.json:5: general.Rigid: true; allowed: an integer, 0 or 1",
        ),
        (
            "\"SDR\": 1000",
            "\"SDR\": null",
            "p.json:4: general.SDR: null; allowed: an integer, 0 and above",
        ),
        (
            "\"SDR\": 1000",
            "\"SDR\": \"many\"",
            "p.json:4: general.SDR: \"many\"; allowed: an integer, 0 and above",
        ),
        (
            "\"general\": {",
            "\"general\": 3, \"other\": {",
            "p.json:2: general: 3; allowed: a table",
        ),
        (
            "\"general\": {",
            "\"General\": {",
            "p.json:1: general: missing; allowed: an object",
        ),
        (
            "\"groups\": [",
            "\"groups\": 5, \"other\": [",
            "p.json:18: groups: 5; allowed: a list of tables",
        ),
        (
            "\"groups\": [",
            "\"groups\": [ 4,",
            "p.json:18: groups[0]: 4; allowed: a table",
        ),
        // Sizes.
        (
            "\"SDR\": 1000",
            "\"SDR\": -8",
            "p.json:4: general.SDR: -8 is negative; allowed: 0 and above",
        ),
        (
            "\"SDR\": 1000",
            "\"SDR\": -0.5",
            "p.json:4: general.SDR: -0.5 is negative; allowed: 0 and above",
        ),
        (
            "\"SDR\": 1000",
            "\"SDR\": 1e19",
            "p.json:4: general.SDR: 10000000000000000000 is too large; allowed: 0 to 9223372036854775807",
        ),
        (
            "\"SDR\": 1000",
            "\"SDR\": 2e18",
            "p.json:4: general.SDR: 2000000000000000000 elements of 8 bytes are too many; allowed: at most \
             9223372036854775807 bytes",
        ),
        (
            "\"SDR\": 1000",
            "\"SDR\": 1e999",
            "p.json:4: general.SDR: inf; allowed: an integer, 0 and above",
        ),
        (
            "\"Datasize\": 8",
            "\"Datasize\": 0",
            "p.json:4: general.Datasize: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "\"Capture_Method\": 2",
            "\"Capture_Method\": 3",
            "p.json:5: general.Capture_Method: 3 is too large; allowed: 0 to 2",
        ),
        (
            "4096",
            "-1",
            "p.json:12: phases[0].stages[1].Stage_Bytes: -1 is negative; allowed: 0 to 2147483647",
        ),
        (
            "4096",
            "2147483648",
            "p.json:12: phases[0].stages[1].Stage_Bytes: 2147483648 is too large; allowed: 0 to 2147483647",
        ),
        (
            "\"Stage_Time\": 0.5",
            "\"Stage_Time\": -0.5",
            "p.json:11: phases[0].stages[0].Stage_Time: -0.5 is negative; allowed: 0 and above",
        ),
        (
            "\"Stage_Time\": 0.5",
            "\"Stage_Time\": 1e999",
            "p.json:11: phases[0].stages[0].Stage_Time: inf is not finite; allowed: a number, 0 and above",
        ),
        (
            "\"Stage_Type\": 10",
            "\"Stage_Type\": 11",
            "p.json:14: phases[0].stages[3].Stage_Type: 11 is too large; allowed: 0 to 10",
        ),
        (
            "\"Iters\": 5",
            "\"Iters\": 0",
            "p.json:25: groups[1].Iters: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "\"Total_Iters\": 20",
            "\"Total_Iters\": 0",
            "p.json:9: phases[0].Total_Iters: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "\"Procs\": 2",
            "\"Procs\": 0",
            "p.json:25: groups[1].Procs: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "\"FactorS\": 1,",
            "\"FactorS\": -1,",
            "p.json:25: groups[1].FactorS: -1 is negative; allowed: 0 and above",
        ),
        (
            "\"Granularity\": 300",
            "\"Granularity\": 0",
            "p.json:11: phases[0].stages[0].Granularity: 0 is too small; allowed: 1 to 2147483647",
        ),
        // Keys that are needed.
        (
            "\"Rigid\": 1,",
            "",
            "p.json:2: general.Rigid: missing; allowed: an integer, 0 or 1",
        ),
        (
            "\"Iters\": 5,",
            "",
            "p.json:24: groups[1].Iters: missing; allowed: an integer, 1 to 2147483647",
        ),
        (
            ", \"Stage_Identifier\": 7",
            "",
            "p.json:12: phases[0].stages[1].Stage_Identifier: missing; allowed: an integer that stages of \
             types 3 (start) and 4 (wait) share",
        ),
        // Counts.
        (
            "\"Total_Resizes\": 1",
            "\"Total_Resizes\": 2",
            "p.json:3: general.Total_Resizes: found 2 groups; allowed: 3, one more than Total_Resizes, which \
             is 2",
        ),
        (
            "\"Total_Phases\": 1",
            "\"Total_Phases\": 3",
            "p.json:3: general.Total_Phases: found 1 phases; allowed: 3, as Total_Phases says",
        ),
        (
            "\"Total_Stages\": 4",
            "\"Total_Stages\": 5",
            "p.json:9: phases[0].Total_Stages: found 4 stages; allowed: 5, as Total_Stages says",
        ),
        // Stages.
        (
            "\"Stage_Time\": 0.5",
            "\"Stage_Time\": 0",
            "p.json:11: phases[0].stages[0].Stage_Time: 0, but the stage computes (matvec); allowed: above 0",
        ),
        (
            TYPES,
            "\"Stage_Type\": 8, \"Stage_Bytes\": 0, \"Stage_Time\": 0",
            "p.json:14: phases[0].stages[3].Stage_Bytes: 0, and so is Stage_Time of this stage (allreduce); \
             allowed: Stage_Bytes or Stage_Time above 0",
        ),
        (
            TYPES,
            "\"Stage_Type\": 8, \"Stage_Bytes\": 8, \"Stage_Time\": 0, \"Stage_Time_Capped\": 1",
            "p.json:14: phases[0].stages[3].Stage_Time: 0, but the stage is capped; allowed: above 0",
        ),
        (
            "\"Stage_Type\": 4,",
            "\"Stage_Type\": 4, \"Stage_Time_Capped\": 1,",
            "p.json:13: phases[0].stages[2].Stage_Time: 0, but the wait is capped; allowed: above 0",
        ),
        (
            "\"Stage_Involved_Procs\": 2",
            "\"Stage_Involved_Procs\": 3",
            "p.json:14: phases[0].stages[3].Stage_Involved_Procs: 3 ranks, but group 1 has 2 processes (line \
             25); allowed: 0 (all) to 2",
        ),
        (
            "\"Stage_Time\": 0, \"Stage_Identifier\": 7 },\n        { \"Stage_Type\": 10",
            "\"Stage_Time\": 0, \"Stage_Identifier\": 8 },\n        { \"Stage_Type\": 10",
            "p.json:13: phases[0].stages[2].Stage_Identifier: no start with identifier 8 before; allowed: for \
             each identifier one start, and after it in the same phase one wait",
        ),
        (
            "\"Stage_Type\": 4,",
            "\"Stage_Type\": 3, \"Granularity\": 5,",
            "p.json:13: phases[0].stages[2].Stage_Bytes: 0, and so is Stage_Time of this stage \
             (start-point-to-point); allowed: Stage_Bytes or Stage_Time above 0",
        ),
        (
            TYPES,
            "\"Stage_Type\": 4, \"Stage_Bytes\": 0, \"Stage_Time\": 0, \"Stage_Identifier\": 7",
            "p.json:14: phases[0].stages[3].Stage_Identifier: a second wait for 7; allowed: for each \
             identifier one start, and after it in the same phase one wait",
        ),
        (
            TYPES,
            "\"Stage_Type\": 3, \"Stage_Bytes\": 1, \"Stage_Time\": 0, \"Stage_Identifier\": 7",
            "p.json:14: phases[0].stages[3].Stage_Identifier: 7 is the identifier of the start in line 12; \
             allowed: for each identifier one start, and after it in the same phase one wait",
        ),
        (
            TYPES,
            "\"Stage_Type\": 3, \"Stage_Bytes\": 1, \"Stage_Time\": 0, \"Stage_Identifier\": 8",
            "p.json:14: phases[0].stages[3].Stage_Identifier: no wait for 8 after it; allowed: for each \
             identifier one start, and after it in the same phase one wait",
        ),
        // Resizes.
        (
            "\"spread\"",
            "\"even\"",
            "p.json:25: groups[1].Dist: \"even\"; allowed: \"compact\" or \"spread\"",
        ),
        (
            "\"Spawn_Method\": 1",
            "\"Spawn_Method\": 2",
            "p.json:26: groups[1].Spawn_Method: 2 is too large; allowed: 0 or 1",
        ),
        (
            "[1, 4]",
            "[6]",
            "p.json:26: groups[1].Spawn_Strategy: 6 is no strategy; allowed: 0 (none), 1 (thread), 2 \
             (single), 3 (intercommunicator), 4 (multiple), 5 (parallel)",
        ),
        (
            "[1, 4]",
            "[]",
            "p.json:26: groups[1].Spawn_Strategy: an empty list; allowed: a list of integers, one or more",
        ),
        (
            "[0, 3]",
            "3",
            "p.json:27: groups[1].Redistribution_Strategy: 3; allowed: a list of integers, one or more",
        ),
        (
            "[0, 3]",
            "[4]",
            "p.json:27: groups[1].Redistribution_Strategy: 4 is no strategy; allowed: 0 (none), 1 (threads), \
             2 (wait sources), 3 (wait targets)",
        ),
        (
            "[0, 3]",
            "[2]",
            "p.json:27: groups[1].Redistribution_Strategy: 2 (wait sources) does not go with the one-sided \
             method rma1: the targets read, so no request tells a source when its data has left; allowed: 0 \
             (none), 1 (threads), 3 (wait targets)",
        ),
        (
            "[0, 3]",
            "[1, 3]",
            "p.json:27: groups[1].Redistribution_Strategy: Threading and WaitTargets at once; allowed: one \
             strategy",
        ),
        // Templates.
        (
            "\"SDR\": 1000",
            "\"SDR\": \"500000:1000000\"",
            "p.json:4: general.SDR: \"500000:1000000\" is a text, as in a template (\"Multi\") file, which \
             stands for many configurations: expand it with Proteo's GenConfig first; allowed: an integer, 0 \
             and above",
        ),
        (
            "\"FactorS\": 1,",
            "\"FactorS\": \"1\",",
            "p.json:25: groups[1].FactorS: \"1\" is a text, as in a template (\"Multi\") file, which stands \
             for many configurations: expand it with Proteo's GenConfig first; allowed: a number, 0 and above",
        ),
        (
            "[0, 3]",
            "\"0,1:0\"",
            "p.json:27: groups[1].Redistribution_Strategy: \"0,1:0\" is a text, as in a template (\"Multi\") \
             file, which stands for many configurations: expand it with Proteo's GenConfig first; allowed: a \
             list of integers, one or more",
        ),
    ] {
        let error = json(&changed(JSON, from, to)).unwrap_err();
        assert_eq!(error.to_string(), message, "{to}");
    }
    for (text, message) in [
        ("", "p.json:1: not JSON: the file is empty"),
        (
            "\n[1]",
            "p.json:2: the file: a list; allowed: an object with general, phases and groups",
        ),
        ("{", "p.json:1: not JSON: Unterminated object"),
    ] {
        assert_eq!(json(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn wrong_ini_is_refused() {
    for (from, to, message) in [
        // The language.
        (
            "Rigid=1",
            "Rigid",
            "p.ini:8: not INI: neither key nor section; allowed: key=value, [name], ; comment",
        ),
        (
            "Rigid=1",
            "  Rigid=1",
            "p.ini:8: not INI: an indented line continues the value above it for SAM; allowed: lines that are \
             not indented",
        ),
        (
            "[stage1]",
            "[stage1",
            "p.ini:14: not INI: a section ends with ]; allowed: [name]",
        ),
        (
            "Rigid=1",
            "Rigid=1\nRigid=1",
            "p.ini:9: general.Rigid: given again, after line 8; allowed: once",
        ),
        (
            "[stage1]",
            "[stage0]",
            "p.ini:14: stage0: given again, after line 10; allowed: once",
        ),
        // Values.
        (
            "SDR=100",
            "SDR=1e9",
            "p.ini:6: general.SDR: \"1e9\", of which SAM reads the digits at the start only; allowed: an \
             integer in digits",
        ),
        (
            "SDR=100",
            "SDR=-8",
            "p.ini:6: general.SDR: -8 is negative; allowed: 0 and above",
        ),
        (
            "SDR=100\n",
            "",
            "p.ini:2: general.SDR: missing; allowed: an integer, 0 and above",
        ),
        (
            "[general]\n",
            "",
            "p.ini:1: general.Total_Resizes: missing; allowed: an integer, 0 to 2147483647",
        ),
        (
            "Procs=2",
            "Procs=two",
            "p.ini:29: resize1.Procs: \"two\"; allowed: an integer, 1 to 2147483647",
        ),
        (
            "Procs=2",
            "Procs=2:4",
            "p.ini:29: resize1.Procs: \"2:4\" is a text, as in a template (\"Multi\") file, which stands for \
             many configurations: expand it with Proteo's GenConfig first; allowed: an integer, 1 to \
             2147483647",
        ),
        (
            "FactorS=0.5",
            "FactorS=nan",
            "p.ini:30: resize1.FactorS: NaN is not finite; allowed: a number, 0 and above",
        ),
        (
            "Stage_Time=0.5",
            "Stage_Time=-0.5",
            "p.ini:13: stage0.Stage_Time: -0.5 is negative; allowed: 0 and above",
        ),
        (
            "Spawn_Strategy=3",
            "Spawn_Strategy=,",
            "p.ini:35: resize1.Spawn_Strategy: an empty list; allowed: a list of integers, one or more",
        ),
        (
            "Spawn_Strategy=3",
            "Spawn_Strategy=7",
            "p.ini:35: resize1.Spawn_Strategy: 7 is no strategy; allowed: 1 (none), 2 (asynchronous), 3 \
             (single), 6 (all), the old numbers",
        ),
        (
            "Redistribution_Strategy=2",
            "Redistribution_Strategy=7",
            "p.ini:33: resize1.Redistribution_Strategy: 7 is no strategy; allowed: 1 (none), 2 (threads), the \
             old numbers",
        ),
        // Counts.
        (
            "Total_Resizes=1",
            "Total_Resizes=2",
            "p.ini:3: general.Total_Resizes: found 2 groups; allowed: 3, one more than Total_Resizes, which \
             is 2",
        ),
        (
            "Total_Stages=2",
            "Total_Stages=3",
            "p.ini:4: general.Total_Stages: found 2 stages; allowed: 3, as Total_Stages says",
        ),
        (
            "Total_Stages=2\n",
            "",
            "p.ini:2: general.Total_Stages: missing; allowed: an integer, 1 to 2147483647",
        ),
        (
            "Total_Stages=2",
            "Total_Stages=0",
            "p.ini:4: general.Total_Stages: 0 is too small; allowed: 1 to 2147483647",
        ),
    ] {
        let error = ini(&changed(INI, from, to)).unwrap_err();
        assert_eq!(error.to_string(), message, "{to}");
    }
    let oldest = "[general]\nresizes=1\nmatrix_tam=100\nSDR=0\n[resize0]\niters=5\nprocs=2\n";
    assert_eq!(
        ini(oldest).unwrap_err().to_string(),
        "p.ini:2: resizes: the oldest form of Proteo's files, without stages, is not supported; allowed: \
         files with Total_Resizes and [stage0] or [phase0]"
    );
    let beyond = changed(PHASES, "Total_Phases=2", "Total_Phases=3");
    assert_eq!(
        ini(&beyond).unwrap_err().to_string(),
        "p.ini:3: general.Total_Phases: found 2 phases; allowed: 3, as Total_Phases says"
    );
}
