//! Questions of the agent's to the person.

use super::{check, check_in_a_turn};

#[test]
fn d_05_the_first_answer_is_the_outcome_of_the_call_that_asked() {
    check_in_a_turn(
        "
propose ask_user:c1
    tool.use c1
    question.asked c1
answer answer_2
    question.answered Answered blue
    tool.result c1 Completed
answer answer_1
    rejected: its time has passed
propose ask_user:c2
    tool.use c2
    question.asked c2
say neither
    question.answered Answered neither
    tool.result c2 Completed
propose ask_user:c3
    tool.use c3
    question.asked c3
answer later
    question.answered Later
    tool.result c3 Completed
end
    result EndTurn
",
    );
}

#[test]
fn d_05_whoever_does_not_answer_declines() {
    check_in_a_turn(
        "
propose ask_user:c1
    tool.use c1
    question.asked c1
answer decline
    question.answered Declined
    tool.result c1 Denied
propose ask_user:c2
    tool.use c2
    question.asked c2
dismiss
    question.answered Declined
    tool.result c2 Denied
propose ask_user:c3
    tool.use c3
    question.asked c3
say   \x20
    question.answered Declined
    tool.result c3 Denied
propose ask_user:c4
    tool.use c4
    question.asked c4
unable
    question.answered Declined
    tool.result c4 Denied
propose ask_user:c5
    tool.use c5
    question.asked c5
expire
    question.answered Expired
    tool.result c5 Denied
",
    );
}

#[test]
fn d_05_a_question_is_asked_in_every_mode_and_ends_with_its_turn() {
    check(
        "
mode plan
    mode.changed plan
prompt hello
    notice
    session.updated
    user.message hello
    turn.started 1
propose ask_user:c1
    tool.use c1
    question.asked c1
cancel
    question.answered Cancelled
end-cancelled
    tool.result c1 Cancelled
    result Cancelled
mode bypass
    mode.changed bypass
prompt again
    user.message again
    turn.started 2
propose ask_user:c2 ask_user:c3!
    tool.use c2
    tool.use c3
    question.asked c2
    tool.result c3 Denied
interrupt
    question.answered Cancelled
    tool.result c2 NotRun
    turn.interrupted 2
",
    );
}

#[test]
fn d_04_whoever_denies_may_say_why_and_the_model_is_told() {
    check_in_a_turn(
        "
propose write:c1
    tool.use c1
    permission.asked c1
explain reject_once no rule
    permission.answered Denied, no rule
    tool.result c1 Denied
propose write:c2
    tool.use c2
    permission.asked c2
explain allow_once by a rule
    permission.answered Allowed, by a rule
finish c2
    tool.result c2 Completed
propose ask_user:c3
    tool.use c3
    question.asked c3
explain decline nobody is there
    question.answered Declined
    tool.result c3 Denied
",
    );
}

#[test]
fn d_04_a_tool_that_is_not_there_fails_in_every_mode_and_nobody_is_asked() {
    check_in_a_turn(
        "
propose raed:c1~ write:c2
    tool.use c1
    tool.use c2
    tool.result c1 Failed
    permission.asked c2
answer allow_once
    permission.answered Allowed
mode plan
    mode.changed plan
propose raed:c3~
    tool.use c3
    tool.result c3 Failed
",
    );
}
