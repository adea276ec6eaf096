def write(topic, segments):
    return {"Story": {"topic": topic, "Segments": [{"HasTransition": i != 1} for i in range(segments)]}}
