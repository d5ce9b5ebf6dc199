#!/usr/bin/env python3
"""Writes tests/golden/chat.json: templates of chats, and what transformers' apply_chat_template makes of them.

    /tmp/composer-peers/transformers/bin/python tools/make_chat_goldens.py            transformers 4.57.1, Jinja 3.1.6
    … tools/make_chat_goldens.py FOLDER OUT      the same of the *.jinja files in FOLDER, for a look at published ones

The templates are the project's own. Together they have every construct that data/chat supports, in the ways in which published templates use them.
An entry is {"name", "template", "text"} or {…, "error": true} per conversation of `chats`.
"""
import json
import pathlib
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "chat.json"

CHATML = """{% for message in messages %}
{%- if loop.first and message.role != 'system' %}
{{ '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}
{% endif -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{%- endif %}
"""
HEADERS = """{#- A system text is taken out of the list. -#}
{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_text = messages[0]['content']|trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system_text = "" %}
    {%- set rest = messages %}
{%- endif %}
{{- "<|header|>system<|/header|>\\n\\n" + system_text ~ "<|eot|>" }}
{%- if tools is not none %}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- "\\n" }}
    {%- endfor %}
{%- endif %}
{%- for message in rest %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|header|>' + message['role'] + '<|/header|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One call at a time!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|eot|>" }}
    {%- else %}
        {{- "<|tool|>" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header|>assistant<|/header|>\\n\\n' }}
{%- endif %}
"""
TURNS = """{{ bos_token }}{% for message in messages | rejectattr('role', 'equalto', 'system') | list %}\
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}\
{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}\
{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'].strip() + eos_token}}\
{% else %}{{ raise_exception('Only user and assistant!') }}{% endif %}{% endfor %}"""
BARS = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
THINKING = """{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.found = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- set thought = '' %}
    {%- if '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if message.role == "assistant" and loop.index0 > ns.last and (loop.last or thought) %}
        {{- '<think>' ~ thought ~ '</think>' }}
    {%- endif %}
    {{- message.role ~ ': ' ~ content }}
    {%- if not loop.last %}{{ "\\n" }}{% else %}{{ loop.previtem.role if loop.previtem is defined else 'alone' }}{% endif %}
{%- endfor %}"""
OPERATORS = """{%- set n = namespace(total=0, texts='') -%}
{% for i in range(1, 10, 2) if i is odd and i != 5 %}{% if i == 9 %}{% break %}{% endif %}{% if i == 3 %}{% continue %}{% endif %}\
{% set n.total = n.total + i * 2 - 1 %}{{ i }}/{{ loop.index }}/{{ loop.revindex }}/{{ loop.length }};{% else %}none{% endfor %}
{{ n.total // 4 }} {{ n.total % 4 }} {{ 7 / 2 }} {{ -3 }} {{ 2 * (1 + 2) }} {{ true and not false }} {{ none }} {{ 1.5 + 1 }}
{% for key, value in {'a': 1, 'b': 'two'}.items() %}{{ key }}={{ value }}{{ ', ' if not loop.last }}{% endfor %}
{% for x in [] %}never{% else %}empty{% endfor %} {{ missing | default('fallback') }} {{ '' | default('x', true) }} {{ missing is defined }}
{{ ['a', 'b'] | join('-') }} {{ 'Title case'.title() }} {{ 'abc'[1:] }} {{ 'abc'[-1] }} {{ 'a,b,c'.split(',') | length }} {{ [1, 2, 3] | last }}
{{ {'k': [1, none, true, 'ä"']} | tojson }} {{ messages | map(attribute='role') | join(' ') }} {{ 'x' in ['x'] }} {{ 'x' not in 'xyz' }}
{%- set block %}
 a block {{ 1 + 1 }}
{% endset %}
[{{ block }}] {{ ' trim ' | trim }} {{ 'up' | upper }}{{ 'LOW' | lower }} {{ '5' | int + 1 }} {{ 'a-b' | replace('-', '+') }} {{ [3, 1][0] }}
{{ (messages | selectattr('role', 'equalto', 'user') | first).content }} {{ dict(a=1).a }} {{ 'aXbX'.replace('X', '') }} {{ ([1] + [2]) | length == 2 }}
   {% if 1 < 2 and 'b' > 'a' or missing %}kept spaces before{% endif %}   {{ 'yes' if 0 else 'no' }}
{%+ if true %}plus{% endif +%}
{{- ' end ' -}}   
  {# a comment #}
done"""
TEMPLATES = {"chatml": CHATML, "headers": HEADERS, "turns": TURNS, "bars": BARS, "thinking": THINKING, "operators": OPERATORS}

USER, ANSWER = {"role": "user", "content": " Hello,\nwörld! "}, {"role": "assistant", "content": " Hi. "}
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "required": []}}}
CHATS = [
    {"messages": [USER]},
    {"messages": [USER, ANSWER, {"role": "user", "content": "And <b>\"now\"</b>?"}], "add_generation_prompt": True},
    {"messages": [{"role": "system", "content": "You are\ta test."}, USER, ANSWER], "add_generation_prompt": False},
    {"messages": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}]},
    {"messages": [ANSWER, USER], "add_generation_prompt": True},
    {"messages": [USER, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "now", "arguments": {"zone": "ü", "n": 1.5}}}]},
                  {"role": "tool", "content": "12:00"}, ANSWER], "tools": [TOOL], "add_generation_prompt": True},
]


def render(template, chat):
    try:
        return {"text": _compile_jinja_template(template).render(bos_token="<s>", eos_token="</s>", **chat)}
    except Exception:  # the template's own, or Jinja's for something undefined
        return {"error": True}


def main():
    templates = TEMPLATES
    if len(sys.argv) > 1:
        templates = {path.stem: path.read_text() for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja"))}
    cases = [{"name": name, "template": template, "rendered": [render(template, chat) for chat in CHATS]} for name, template in templates.items()]
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else OUT
    out.write_text(json.dumps({"versions": {"transformers": "4.57.1", "jinja2": "3.1.6"}, "chats": CHATS, "cases": cases}, ensure_ascii=False, indent=1) + "\n")


main()
