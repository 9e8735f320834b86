//! Gemini's streams, in the forms of its models and of the services in front of them.

#![expect(clippy::expect_used, reason = "the words are literals of this test")]

use std::time::Duration;

use super::{Dice, Honest};

const WORDS: &[&str] = &[
    " answer",
    " code",
    " 429",
    " is",
    ",",
    "\\n",
    " Grüße",
    " 你好",
    " 🙂",
    " \\\"quoted\\\"",
    " data: x",
    " STOP",
    ".",
    " [DONE]",
    "\\u00e9",
    " {\\\"a\\\":1}",
];

/// What is the same in all events of one answer.
struct Form {
    line_end: &'static str,
    space: &'static str,
    named: bool,
    /// The finish reason stands in every event.
    habit: bool,
    /// What stands for no finish reason.
    unset: &'static str,
    role: &'static str,
    index: &'static str,
    identity: &'static str,
    /// Counts come with every event.
    counting: bool,
    spaced: bool,
}

impl Form {
    fn draw(dice: &mut Dice) -> Self {
        let mut one_of =
            |choices: &'static [&'static str]| choices[dice.roll(choices.len() as u64) as usize];
        let line_end = one_of(&["\n", "\r\n", "\r"]);
        let space = one_of(&["", " "]);
        let unset = one_of(&[
            "",
            "",
            ",\"finishReason\":null",
            ",\"finishReason\":\"\"",
            ",\"finishReason\":\"FINISH_REASON_UNSPECIFIED\"",
        ]);
        let role = one_of(&["\"role\":\"model\",", "", "\"role\":null,"]);
        let index = one_of(&[",\"index\":0", ""]);
        let identity = one_of(&[
            ",\"modelVersion\":\"test-model\",\"responseId\":\"r-1\"",
            ",\"modelVersion\":\"models/test-model-001\",\"responseId\":\"\"",
            ",\"modelVersion\":\"google/test-model\",\"createTime\":\"2026-01-01T00:00:00Z\"",
            "",
        ]);
        Self {
            line_end,
            space,
            named: dice.roll(4) == 0,
            habit: dice.roll(4) == 0,
            unset,
            role,
            index,
            identity,
            counting: dice.roll(2) == 0,
            spaced: dice.roll(4) == 0,
        }
    }

    fn event(&self, json: &str) -> Vec<u8> {
        let (space, end) = (self.space, self.line_end);
        let name = if self.named {
            format!("event:{space}message{end}")
        } else {
            String::new()
        };
        let json = if self.spaced {
            // Over several lines, each with its field.
            json.replacen(
                "{\"candidates\":",
                &format!("{{{end}data:{space}\"candidates\": "),
                1,
            )
        } else {
            json.to_owned()
        };
        format!("{name}data:{space}{json}{end}{end}").into_bytes()
    }

    /// An event with these parts.
    fn parts(&self, parts: &str, finish: Option<&str>, usage: &str) -> Vec<u8> {
        let finish = match finish {
            Some(reason) => format!(",\"finishReason\":\"{reason}\""),
            None if self.habit => ",\"finishReason\":\"STOP\"".to_owned(),
            None => self.unset.to_owned(),
        };
        let index = self.index;
        let role = self.role;
        self.event(&format!(
            "{{\"candidates\":[{{\"content\":{{{role}\"parts\":[{parts}]}}{finish}{index}}}]{usage}{}}}",
            self.identity
        ))
    }
}

/// Counts so far.
#[derive(Default)]
struct Counts {
    candidates: u64,
    thoughts: u64,
    within: bool,
    cached: bool,
}

impl Counts {
    fn json(&self) -> String {
        let mut members = vec!["\"promptTokenCount\":9".to_owned()];
        // What is zero is left out.
        let within = if self.within { self.thoughts } else { 0 };
        if self.candidates + within > 0 {
            members.push(format!(
                "\"candidatesTokenCount\":{}",
                self.candidates + within
            ));
        }
        if self.thoughts > 0 {
            members.push(format!("\"thoughtsTokenCount\":{}", self.thoughts));
        }
        if self.cached {
            members.push("\"cachedContentTokenCount\":4".to_owned());
        }
        members.push(format!(
            "\"totalTokenCount\":{},\"promptTokensDetails\":[{{\"modality\":\"TEXT\",\"tokenCount\":9}}],\"trafficType\":\"ON_DEMAND\"",
            9 + self.candidates + self.thoughts
        ));
        format!(",\"usageMetadata\":{{{}}}", members.join(","))
    }
}

/// A stream of `streamGenerateContent`.
pub(crate) fn gemini(dice: &mut Dice) -> Honest {
    let form = Form::draw(dice);
    let end = form.line_end;
    let usage = dice.roll(2) == 0;
    let mut counts = Counts {
        within: dice.roll(4) == 0,
        cached: dice.roll(4) == 0,
        ..Counts::default()
    };
    let mut text = String::new();
    let mut wire = Vec::new();
    let mut now = Duration::from_millis(200);
    if dice.roll(8) == 0 {
        wire.push((now, b"\xEF\xBB\xBF".to_vec()));
    }
    if dice.roll(4) == 0 {
        let early = format!(
            "{{\"candidates\":[]{},\"promptFeedback\":{{\"safetyRatings\":[]}}}}",
            form.identity
        );
        wire.push((now, form.event(&early)));
    }
    let so_far = |counts: &Counts| {
        if form.counting {
            counts.json()
        } else {
            String::new()
        }
    };
    if dice.roll(3) == 0 {
        for _ in 0..1 + dice.roll(3) {
            now += Duration::from_micros(5_000 + dice.roll(40_000));
            counts.thoughts += 1 + dice.roll(50);
            let part = "{\"thought\":true,\"text\":\"**Plan** \"}";
            wire.push((now, form.parts(part, None, &so_far(&counts))));
        }
    }
    let piece = |dice: &mut Dice, text: &mut String, first: bool| {
        let mut said = String::from(if first { "The" } else { "" });
        for _ in 0..1 + dice.roll(12) {
            said += WORDS[dice.roll(WORDS.len() as u64) as usize];
        }
        let read = serde_json::from_str::<String>(&format!("\"{said}\""));
        *text += &read.expect("words are a JSON string");
        format!("{{\"text\":\"{said}\"}}")
    };
    let events = 1 + dice.roll(30);
    let mut last = String::new();
    for index in 0..events {
        now += Duration::from_micros(1_500 + dice.roll(40_000));
        match dice.roll(12) {
            0 => wire.push((now, format!(": keep-alive{end}{end}").into_bytes())),
            1 => wire.push((now, format!("event: ping{end}{end}").into_bytes())),
            2 => wire.push((now, format!("retry: 3000{end}{end}").into_bytes())),
            3 => wire.push((now, format!("id: 7{end}").into_bytes())),
            4 => wire.push((now, form.event("{\"type\":\"ping\"}"))),
            _ => {}
        }
        let mut parts = piece(dice, &mut text, index == 0);
        match dice.roll(8) {
            0 => parts = format!("{parts},{}", piece(dice, &mut text, false)),
            1 => parts = format!("{{\"text\":\"\",\"thoughtSignature\":\"c2ln\"}},{parts}"),
            2 => parts += ",{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"aGk=\"}}",
            3 => {
                parts += ",{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1\"}},\
                          {\"codeExecutionResult\":{\"outcome\":\"OUTCOME_OK\"}}";
            }
            _ => {}
        }
        counts.candidates += 1 + dice.roll(40);
        if index + 1 == events {
            last = parts;
        } else {
            wire.push((now, form.parts(&parts, None, &so_far(&counts))));
        }
    }
    if dice.roll(6) == 0 {
        counts.candidates += 4;
        let calls: &[&str] = if dice.roll(2) == 0 {
            &[
                "{\"functionCall\":{\"name\":\"f\",\"args\":{\"x\":\"{\"},\"id\":\"i\"}},\
                 {\"functionCall\":{\"name\":\"f\"}}",
            ]
        } else {
            &[
                "{\"functionCall\":{\"name\":\"f\",\"willContinue\":true}}",
                "{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.x\",\"stringValue\":\"a\"}],\
                 \"willContinue\":true}}",
                "{\"functionCall\":{}}",
            ]
        };
        wire.push((now, form.parts(&last, None, &so_far(&counts))));
        for call in calls {
            now += Duration::from_millis(3);
            wire.push((now, form.parts(call, None, &so_far(&counts))));
        }
        last = "{\"text\":\"\"}".to_owned();
    } else if dice.roll(2) == 0 {
        wire.push((now, form.parts(&last, None, &so_far(&counts))));
        now += Duration::from_millis(5);
        last = ["{\"text\":\"\"}", ""][dice.roll(2) as usize].to_owned();
    }
    let late = dice.roll(4) == 0;
    let counted = if late || !usage {
        so_far(&counts)
    } else {
        counts.json()
    };
    wire.push((now, form.parts(&last, Some("STOP"), &counted)));
    if late {
        let counts = counts.json().replacen(',', "", 1);
        wire.push((now, form.event(&format!("{{{counts}{}}}", form.identity))));
    }
    Honest { wire, text, usage }
}
