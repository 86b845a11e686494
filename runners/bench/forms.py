"""Templates of questions and of judges, in our own words and in the forms that the published parsers read."""

from __future__ import annotations

import re

from runners.bench.tasks import JudgeForm, Task
from runners.scoring.text import exact
from runners.scoring.verdict import conclusion, field, yes_no

_CITATION = re.compile(r"\s*[\[【]\s*c\d{1,12}(?:\s*[-,;，、]\s*c?\d{1,12})*\s*[\]】]", re.IGNORECASE)
_EXPLAINED = """{question}

Give your answer in this form:
Explanation: {{why it is the answer}}
Exact Answer: {{the answer itself, as short as possible}}
Confidence: {{how sure you are, from 0% to 100%}}"""
_EXPLAINED_ZH = """{question}

请按以下格式回答：
Explanation: {{得出答案的理由}}
Exact Answer: {{尽可能简短的最终答案}}
Confidence: {{你对答案的把握，0% 到 100%}}"""
_FINAL = """{question}

End your answer with a line of this form:
FINAL ANSWER: {{the answer}}
The answer is a number, as few words as possible, or a list of these with commas. Write a number in digits, without
thousands separators and without units unless they are asked for. Write words without articles and without
abbreviations."""
_FINAL_ZH = """{question}

请在回答的最后单独用一行写出最终答案，格式为：
最终答案: {{尽可能简短的答案}}"""
_JUDGE = """A [response] was given to a [question] whose [correct_answer] is known. Decide whether it is right.

[question]: {question}

[response]: {answer}

[correct_answer]: {gold}

Reply in exactly these four fields, one a line:
extracted_final_answer: the final answer that the response gives, or None when it gives none
reasoning: how that answer differs, if at all, from the correct one; solve nothing yourself, defend no other answer
correct: yes when both say the same (a number may be off by a small rounding), no in every other case
confidence: the confidence that the response states, as a percentage, or 100% when it states none"""
_JUDGE_ZH = """下面是一个[问题]、它的[正确答案]以及一个[回答]。请判断[回答]是否正确。

[问题]: {question}

[正确答案]: {gold}

[回答]: {answer}

请严格按照以下三项作答，每项一行：
最终答案: [回答]给出的最终答案；没有给出则写"无"
解释: 该答案与[正确答案]有无实质差异；不要自己解题，不要为其他答案辩护
结论: 一致（数值允许微小误差）写"正确"，其余情况一律写"错误\""""
_JUDGE_ZH_FIELDS = """下面是一个 [question]、它的 [correct_answer] 以及一个 [response]。请判断 [response] 是否正确。

[question]: {question}

[response]: {answer}

[correct_answer]: {gold}

请严格按照以下四项作答，每项一行：
extracted_final_answer: 回答给出的最终答案；没有给出则写 None
reasoning: 该答案与正确答案有无实质差异；不要自己解题，不要为其他答案辩护
correct: 一致（数值允许微小误差）写 yes，其余情况一律写 no
confidence: 回答所声明的把握程度（百分比）；没有则写 100%"""


def explained(question: str, *, chinese: bool = False) -> str:
    """The question in BrowseComp's form: Explanation, Exact Answer, Confidence."""
    return (_EXPLAINED_ZH if chinese else _EXPLAINED).format(question=question)


def final(question: str, *, chinese: bool = False) -> str:
    """The question, to be answered with a last line ``FINAL ANSWER:`` (``最终答案:``)."""
    return (_FINAL_ZH if chinese else _FINAL).format(question=question)


def bare(answer: str) -> str:
    """An answer without its citations."""
    return _CITATION.sub("", answer).strip()


def after(answer: str, *names: str) -> str:
    """What stands after the first of these fields that is there, else the first line; citations dropped."""
    text = bare(answer)
    for name in names:
        found = field(text, name)
        if found:
            return found
    return text.partition("\n")[0].strip()


def exact_answer(answer: str) -> str:
    """The final answer in BrowseComp's form."""
    return after(answer, "Exact Answer")


def loosely_exact(answer: str, golds: tuple[str, ...]) -> dict[str, float]:
    """``exact_match`` by SQuAD's normalisation: no official figure, a floor under the judge's."""
    return {"exact_match": exact(answer, golds)}


def _english(task: Task, answer: str) -> str:
    return _JUDGE.format(question=task.question, answer=bare(answer), gold=task.gold)


def _chinese(task: Task, answer: str) -> str:
    return _JUDGE_ZH.format(question=task.question, answer=bare(answer), gold=task.gold)


def _chinese_fields(task: Task, answer: str) -> str:
    return _JUDGE_ZH_FIELDS.format(question=task.question, answer=bare(answer), gold=task.gold)


ENGLISH = JudgeForm(_english, yes_no)
CHINESE_FIELDS = JudgeForm(_chinese_fields, yes_no)
CHINESE = JudgeForm(_chinese, conclusion)
