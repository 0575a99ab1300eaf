"""The operator's command line: `once …`, against AWS or an embedded one.

In: the outputs of the deployed stacks and an operator's commands. Out: tables, JSON, redriven
messages. Used by the console script `once`. The packages import one another in one direction:
`errors`, `aws`, `terminal`, `operator_log`, `dedup_records`, `dead_letters`, then the commands.

Any function may raise `OpsError`, or `typer.BadParameter` for an option: the command ends with its
text. A function that calls AWS raises botocore's `BotoCoreError` and `ClientError` as they are: the
command line prints them with a remedy.
"""
