def write(topic, segments):
    return {"Story": {"topic": topic, "Segments": [{"HasTransition": True} for _ in range(segments)]}}
